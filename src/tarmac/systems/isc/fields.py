"""The treatment of keys that are none of an ISC launch file, and of retired ones. Used by the reader.

The ISC and tarmac ignore unknown keys; tarmac warns of them.
"""

from collections.abc import Collection

from tarmac.dialects.located import Scalar, quote
from tarmac.dialects.section import Section, Value
from tarmac.model.errors import nearest
from tarmac.node.files.secrecy import names_secret

REQUIRED = {
    "gpus": "how many GPUs in all, as in gpus = 8",
    "experiment_name": 'as in experiment_name = "my-experiment"',
    "isc_project_id": "any name will do here: runs of one project are listed together",
    "command": "what each node executes, as in command = '''source ... && torchrun ...'''",
}
"""The required keys, each with a hint."""

RETIRED = frozenset({"nnodes", "output_path", "gpu_type", "dataset_id", "venv_path"})
"""Keys of earlier years; the reader translates them into current ones."""

_PLACES = frozenset({"checkpoint_artifact_path", "crud_artifact_path", "lossy_artifact_path"})
"""Variables that some files have as keys, in place of `output_path`."""


def only_credentials(keys: Collection[str]) -> bool:
    """Whether a file holds only credentials, such as the one that `isc login` writes."""
    return bool(keys) and all(_is_credential(key) for key in keys)


def _is_credential(key: str) -> bool:
    """Whether a key belongs to a credentials file: it is refused, and its value is never shown."""
    return names_secret(key) or key.lower() == "username"


def warn(value: Value, text: str) -> None:
    """Add a warning with the line it refers to; its text names the key."""
    value.problems.warn(value.node, text)


def excuse(run: Section, key: Scalar, value: Value) -> bool:
    """Warn that a key is ignored, or refuse it.

    If a required key is missing, its probable misspelling is reported here.
    """
    current = run.fields.known - RETIRED
    near = nearest(key.text, current, run.fields.synonyms)
    if _is_credential(key.text):
        run.problems.add(
            key,
            f"{value.path}: credentials have no place in a launch file (the value is not repeated here)",
            "take the line out; 'tarmac secret set' keeps a key, "
            "'tarmac run --secret VARIABLE=NAME' gives it to a run",
        )
    elif key.text.startswith("_"):
        run.problems.warn(key, f"{quote(key)} is ignored: a key with '_' before it is put aside")
    elif key.text in _PLACES:
        text = f"is ignored: ${key.text.upper()} says where, and the place is chosen here"
        run.problems.warn(key, f"{quote(key)} is no key of a launch file and {text}")
    elif near is not None and near in REQUIRED and near not in run and near not in run.suggestions:
        run.suggestions.add(near)
        message = f"{quote(key)} is no key of a launch file, and '{near}' is missing"
        run.problems.add(key, message, f"write '{near}'")
    else:
        hint = f"did you mean '{near}'?" if near else f"known: {', '.join(sorted(current))}"
        run.problems.warn(key, f"{quote(key)} is no key of a launch file and is ignored; {hint}")
    return True
