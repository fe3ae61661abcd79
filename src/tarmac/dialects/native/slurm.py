"""The field `slurm`: a run's own directives for its job on a Slurm."""

from __future__ import annotations

from tarmac.dialects.located import Scalar
from tarmac.dialects.schema import Custom
from tarmac.dialects.section import Value
from tarmac.model.directives import OF_THE_POOL, check_name, check_value
from tarmac.model.errors import InvalidInput

DIRECTIVES = "a mapping from directives to values, such as {constraint: nvlink, mem: null},"
VALUE = "a text or number, true for a directive without a value, or null to drop it,"


def _read(value: Value) -> dict[str, str | None]:
    """The directives by name, every mistake reported at its place."""
    found: dict[str, str | None] = {}
    for key, item in value.entries(DIRECTIVES):
        name = key.node.text if isinstance(key.node, Scalar) else ""
        try:
            check_name(name)
        except InvalidInput as error:
            key.refuse(error.message, error.hint)
            continue
        if name == OF_THE_POOL:
            key.refuse("a pool of the cluster names the partition", "choose one by 'pool'")
            continue
        if not isinstance(item.node, Scalar):
            item.expected(VALUE)
            continue
        try:
            found[name] = check_value(_plain(item.node))
        except InvalidInput as error:
            item.refuse(error.message, error.hint)
    return found


def _plain(node: Scalar) -> str | bool | None:
    """None for an empty value, a truth value for `true` and `false`, the text for any other."""
    if node.empty:
        return None
    if not node.quoted and node.text in ("true", "false"):
        return node.text == "true"
    return node.text


SLURM = Custom(_read, lambda found: {name: True if value == "" else value for name, value in found.items()})
