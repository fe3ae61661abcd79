"""Slot types known by name, and suggestions for unknown ones. Any name is allowed.

Used by the readers.
"""

from collections.abc import Callable

from tarmac.model.codec import replace
from tarmac.model.errors import nearest
from tarmac.model.resources import ACCELERATOR, CPU_ONLY, is_of_type
from tarmac.model.spec import Role

KNOWN = frozenset(
    {CPU_ONLY, ACCELERATOR}
    | {"a100", "a100_40gb", "a100_80gb", "h100", "h200", "t4", "l4", "v100", "p100", "p4", "gtx1050"}
    | {"rtx6000"}
    | {"rtx3050", "rtx3060", "rtx3070", "rtx3080", "rtx3090", "rtx4060", "rtx4070", "rtx4080", "rtx4090"}
    | {"a10", "a10g", "a30", "a40", "a6000", "b200", "b300", "gb200", "gh200", "l40", "l40s", "rtx5080"}
    | {"rtx5090", "rtx8000", "mi250x", "mi300a", "mi300x", "a800", "b100", "h20", "h800", "p40"}
)
"""Names that many clusters share; a misspelling is near one of them."""

_NEAR = 0.75
"""Minimum similarity to a known type: `h10o` and `a100-80gb` reach it, `tpu` does not."""


def is_known(slot_type: str) -> bool:
    """Whether a name is a known type, alone or with its memory: `h100_80gb`."""
    return slot_type in KNOWN or (
        "_" in slot_type and any(is_of_type(slot_type, name) for name in KNOWN - {ACCELERATOR})
    )


def doubt(slot_type: str) -> str | None:
    """A warning about a slot type that looks misspelt; None if it does not."""
    if is_known(slot_type):
        return None
    near = nearest(slot_type.replace("-", "_"), KNOWN, cutoff=_NEAR)
    return f"{slot_type!r} is taken as written; did you mean {near!r}?" if near else None


def with_types(role: Role, changed: Callable[[str | None], str | None]) -> Role:
    """The role with other types of slots, its own and those of its processes."""
    processes = (
        replace(each, resources=replace(each.resources, slot_type=changed(each.resources.slot_type)))
        for each in role.processes
    )
    return replace(role, slot_type=changed(role.slot_type), processes=tuple(processes))
