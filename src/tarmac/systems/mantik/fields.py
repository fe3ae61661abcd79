"""The keys of a compute backend configuration, and the treatment of unknown ones. Used by the readers.

A misspelt key is refused, because its meaning would be lost. Any other unknown key is ignored, as Mantik
does, but with a warning. A key that would hold a secret is refused without showing its value.
"""

from tarmac.dialects.located import Node, Scalar, Table, key_text
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.errors import nearest
from tarmac.node.files.secrecy import names_secret

FIRECREST = Fields(
    known=frozenset({"ApiUrl", "TokenUrl", "Machine"}),
    synonyms=words_for(ApiUrl="url", Machine="system", TokenUrl="authurl"),
)
COMMANDS = {
    "PreRunCommandOnLoginNode": "before_login",
    "PreRunCommandOnComputeNode": "before",
    "PostRunCommandOnComputeNode": "after",
    "PostRunCommandOnLoginNode": "after_login",
}
"""The keys of commands around the application, in the order in which they run, each with its hook."""

ENVIRONMENT = Fields(
    known=frozenset({"Apptainer", "Singularity", "Python", "Modules", "Variables", *COMMANDS}),
    synonyms=words_for(Variables="env vars", Python="venv"),
)
APPTAINER = Fields(known=frozenset({"Path", "Type", "Options"}), synonyms={"image": "Path"})
PYTHON = Fields(known=frozenset({"Path"}))
RESOURCES = Fields(
    known=frozenset({"Queue", "Runtime", "Nodes", "TotalCPUs", "CPUs", "CPUsPerNode", "GPUsPerNode"})
    | {"MemoryPerNode", "Memory", "Reservation", "NodeConstraints", "QoS"},
    synonyms=words_for(
        Queue="partition",
        Runtime="time walltime",
        GPUsPerNode="gpus",
        NodeConstraints="constraint constraints",
    ),
)
CONFIG = Fields(
    known=frozenset(
        {"UnicoreApiUrl", "Firecrest", "SSH", "Environment", "Resources", "Exclude", "SingularityImage"}
    ),
    synonyms=words_for(UnicoreApiUrl="unicore unicoreurl", Environment="env"),
    within={"Firecrest": FIRECREST, "Environment": ENVIRONMENT, "Resources": RESOURCES},
)

_LEGACY = frozenset({"SSH", "SingularityImage", "Singularity", "CPUs", "Memory"})
"""Keys that are known but not recommended."""

MLFLOW_KEYS = frozenset(
    {"ENV_MANAGER", "SYNCHRONOUS", "DOCKER_ARGS", "STORAGE_DIR", "PROJECT_DIR", "build_image", "docker_auth"}
)
"""Keys that MLflow itself adds to a backend's configuration: they say nothing about the run."""


def known_part(value: Value, fields: Fields, *, ignored: frozenset[str] = frozenset()) -> Section | None:
    """The mapping with these fields, without unknown keys; None, with a problem reported, if invalid.

    Keys in `ignored` are dropped silently. Keys without a value count as not given.
    """
    if not isinstance(value.node, Table):
        value.section(fields)
        return None
    entries = []
    for key, item in value.node.entries:
        if key.text in fields.known:
            if not (isinstance(item, Scalar) and item.empty):
                entries.append((key, item))
        elif key.text not in ignored and not _waved_through(key, item, fields, value):
            entries.append((key, item))  # the section refuses it and suggests the nearest right name
    table = Table(entries=tuple(entries), line=value.node.line, column=value.node.column)
    return Section(table, fields, problems=value.problems, path=value.path)


def _waved_through(key: Scalar, item: Node, fields: Fields, value: Value) -> bool:
    """Whether an unknown key is already handled: refused as a secret, or ignored with a warning."""
    path = f"{value.path}.{key_text(key)}" if value.path else key_text(key)
    if names_secret(key.text):
        value.problems.add(
            key, f"{path}: secrets do not belong into a file", "take it out; the site's login is given apart"
        )
        return True
    if nearest(key.text, fields.known, fields.synonyms) is not None:
        return False
    near, usual = fields.near(key.text, item), ", ".join(sorted(fields.known - _LEGACY))
    known = f"did you mean '{near}'?" if near else f"known here: {usual}"
    value.problems.warn(key, f"{path}: there is no such key; it is ignored ({known})")
    return True
