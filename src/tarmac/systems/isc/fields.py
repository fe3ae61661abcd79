"""The keys of an ISC launch file: current, retired, and unknown ones.

Used by the reader. The ISC and tarmac ignore unknown keys; tarmac warns of them.
"""

import re
from collections.abc import Collection, Mapping

from tarmac.dialects.located import Node, Scalar, Table, key_text, quote
from tarmac.dialects.problems import Problems
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.errors import nearest
from tarmac.node.files.secrecy import names_secret

RUN = Fields(
    known=frozenset(
        {"isc_project_id", "experiment_name", "gpus", "command", "compute_mode", "max_rapid_cycles"}
        | {"dataset_id_list", "burst_shape_priority_list", "input_artifact_id_list"}
    )
)

REQUIRED = frozenset({"isc_project_id", "experiment_name", "gpus", "command"})

RETIRED = frozenset({"nnodes", "output_path", "gpu_type", "dataset_id", "venv_path"})
"""Keys of earlier years; the reader translates them into current ones."""

_PLACES = frozenset({"checkpoint_artifact_path", "crud_artifact_path", "lossy_artifact_path"})
"""Variables that some files have as keys, in place of `output_path`."""

_SYNONYMS: Mapping[str, str] = words_for(
    experiment_name="name",
    isc_project_id="project_id project",
    gpus="num_gpus n_gpus ngpus",
    compute_mode="mode",
    dataset_id_list="dataset_ids",
    command="cmd",
    max_rapid_cycles="cycles",
)


class Retired(dict[str, Value]):
    """The values of retired keys, and one warning that covers all of them."""

    def __init__(self) -> None:
        super().__init__()
        self._notes: list[tuple[int, Value, str]] = []

    def note(self, value: Value, text: str) -> None:
        """Add a sentence to the warning."""
        self._notes.append((value.node.line or 0, value, text))

    def warn(self) -> None:
        """Add the warning, at the first line that it covers."""
        notes = sorted(self._notes, key=lambda note: note[0])
        if notes:
            warn(notes[0][1], f"retired keys: {'; '.join(text for _, _, text in notes)}")


def split_keys(tree: Table, problems: Problems) -> tuple[Section, Retired]:
    """The file with current keys only, and the values of retired ones; warns of other keys or refuses them.

    If a required key is missing, its probable misspelling is reported here.
    """
    known: list[tuple[Scalar, Node]] = []
    retired = Retired()
    unknown: list[Scalar] = []
    for key, value in tree.entries:
        if key.text in RUN.known:
            known.append((key, value))
        elif key.text in RETIRED:
            retired[key.text] = Value(value, key.text, problems)
        elif _is_credential(key.text):
            name = key_text(key)
            problems.add(
                key,
                f"{name}: credentials have no place in a launch file (the value is not repeated here)",
                "take the line out; 'tarmac secret set' keeps a key, "
                "'tarmac run --secret VARIABLE=NAME' gives it to a run",
            )
        else:
            unknown.append(key)
    table = Table(entries=tuple(known), line=tree.line, column=tree.column)
    section = Section(table, RUN, problems=problems)
    for key in unknown:
        _judge(key, section)
    return section, retired


def only_credentials(keys: Collection[str]) -> bool:
    """Whether a file holds only credentials, such as the one that `isc login` writes."""
    return bool(keys) and all(_is_credential(key) for key in keys)


def _is_credential(key: str) -> bool:
    """Whether a key belongs to a credentials file: it is refused, and its value is never shown."""
    return names_secret(key) or key.lower() == "username"


def warn(value: Value, text: str) -> None:
    """Add a warning with the line it refers to; its text names the key."""
    value.problems.warn(value.node, text)


def line_of(warning: str) -> int:
    """The line that a warning of `warn` refers to."""
    found = re.match(r"line (\d+): ", warning)
    return int(found[1]) if found is not None else 0


def keys_of_lines(text: str, marks: str = "=:") -> set[str]:
    """Likely keys at the beginning of lines, for a text that does not parse."""
    return {key for key, mark in _KEY.findall(text) if mark in marks}


_KEY = re.compile(r"^([A-Za-z_]+)[ \t]*([=:])(?!=)", re.ASCII | re.MULTILINE)


def _judge(key: Scalar, section: Section) -> None:
    """Warn that a key is ignored, or refuse it."""
    if key.text.startswith("_"):
        section.problems.warn(key, f"{quote(key)} is ignored: a key with '_' before it is put aside")
        return
    if key.text in _PLACES:
        text = f"is ignored: ${key.text.upper()} says where, and the place is chosen here"
        section.problems.warn(key, f"{quote(key)} is no key of a launch file and {text}")
        return
    near = nearest(key.text, RUN.known, _SYNONYMS)
    if near in REQUIRED and near not in section and near not in section.suggestions:
        section.suggestions.add(near)
        section.problems.add(
            key, f"{quote(key)} is no key of a launch file, and '{near}' is missing", f"write '{near}'"
        )
        return
    hint = f"did you mean '{near}'?" if near else f"known: {', '.join(sorted(RUN.known))}"
    section.problems.warn(key, f"{quote(key)} is no key of a launch file and is ignored; {hint}")
