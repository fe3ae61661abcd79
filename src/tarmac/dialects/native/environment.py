"""The fields of the workers' environment and of a pause, and the readers of variables and labels.

Used by the tables in `fields` and `code`, and by overrides.
"""

import posixpath
import re
from collections.abc import Mapping

from tarmac.dialects import quantities
from tarmac.dialects.kinds import Kind, Misfit, matching, text, words
from tarmac.dialects.located import Scalar
from tarmac.dialects.names import LABEL_NAME, LABEL_VALUE, VARIABLE_NAME, reserved
from tarmac.dialects.schema import Custom, Field, record, tuple_of
from tarmac.dialects.section import Value
from tarmac.model.spec import Environment, PausePolicy


def read_name(value: Value) -> str:
    """The name of a variable that tarmac does not set itself; "" for an invalid one."""
    name = value.read(VARIABLE_NAME, "")
    if reserved(name):
        value.refuse(f"{name} is set by tarmac itself for every worker", "take the line out")
    return name


def read_variables(value: Value) -> dict[str, str]:
    """Variables by name, with their values as written."""
    variables = {}
    for key, item in value.entries("a mapping from names to values"):
        name = read_name(key)
        variables[name] = _plain_text(item, text("a text or number"))
        if found := EXPANSION.search(variables[name]):
            item.warn(f"no shell reads this value: {found[0]!r} stays as it is")
    return variables


def _set_by_users(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a run file: those that tarmac sets would override these, and are refused there."""
    return {name: value for name, value in variables.items() if not reserved(name)}


def _labels(value: Value) -> Mapping[str, str]:
    pairs = value.entries("a mapping from names to values")
    return {key.read(LABEL_NAME, ""): _plain_text(item, LABEL_VALUE) for key, item in pairs}


def _path(scalar: Scalar) -> str:
    path = scalar.text
    if found := EXPANSION.search(path) or re.match("~", path):
        raise Misfit(f"{found[0]!r} is not expanded: write the whole path, or one relative to the run file")
    if not path or len(path.encode()) > 4096:
        raise Misfit()
    return posixpath.normpath(path)


IMAGE = matching(r"[^\s\x00-\x1f\x7f]{1,500}", "the name of a container image, without blanks,")
MODULE = matching(r"[A-Za-z0-9_][A-Za-z0-9_.+/@=:-]{0,254}", "the name of a module, such as CUDA/12.1,")

EXPANSION = re.compile(r"\$(\w+|\{\w+\})", re.ASCII)
"""A variable that a shell would expand."""


def _plain_text(value: Value, kind: Kind[str]) -> str:
    if isinstance(value.node, Scalar) and value.node.empty:
        value.refuse("there is no value", "write '' for an empty one")
        return ""
    return value.read(kind, "")


VARIABLES = Custom(read_variables, _set_by_users)
LABELS = Custom(_labels)
PATH = Kind("a path", _path)
"""A path of the submitter's machine, before it is joined with the directory of its run file."""

ENVIRONMENT = record(
    {
        "image": Field(IMAGE, words="container container_image"),
        "pull": Field(
            words({"missing": False, "always": True}),
            sets="pull_always",
            words="force_pull_image pull_policy image_pull_policy",
        ),
        "shared_memory": Field(quantities.SIZE, sets="shared_memory_bytes", words="shm_size shm"),
        "modules": Field(tuple_of(MODULE, "a list of modules", or_one=True), words="module"),
        "venv": Field(PATH, words="virtualenv python"),
        "variables": Field(VARIABLES, words="env vars"),
    },
    make=Environment,
)
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
PAUSE = record(
    {
        "signal": Field(words({**dict(zip(SIGNALS, SIGNALS, strict=True)), "none": None})),
        "grace": Field(quantities.duration_s(0), sets="grace_s", words="timeout grace_period"),
    },
    make=PausePolicy,
)
