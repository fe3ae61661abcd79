"""Reads the mode of a run, and how many turns a cycle run has. Used by the reader and by overrides."""

from __future__ import annotations

from enum import StrEnum

from tarmac.model.spec import Mode
from tarmac.spec.kinds import choice, integer
from tarmac.spec.section import Section

MOST_RAPID_CYCLES = 5


class _Offered(StrEnum):
    """The modes that this version honours."""

    BATCH = Mode.BATCH
    CYCLE = Mode.CYCLE
    INTERRUPTIBLE = Mode.INTERRUPTIBLE


MODES = tuple(str(mode) for mode in _Offered)
"""What `mode` may say."""


def read_mode(run: Section, default: Mode = Mode.BATCH) -> Mode:
    """The mode; `burst` is part of the language and refused with the reason."""
    value = run.get("mode")
    if value is None:
        return default
    if getattr(value.node, "text", None) == Mode.BURST:
        value.refuse(
            "burst needs a cluster rented for the run, which this version of tarmac cannot do yet",
            f"one of {', '.join(MODES)}",
        )
        return default
    return Mode(value.read(choice(_Offered), default))


def read_rapid_cycles(run: Section, mode: Mode, default: int) -> int:
    """How many turns a cycle run has; refused of any other run (I7)."""
    value = run.get("max_rapid_cycles")
    if value is None:
        return default
    said = run.get("mode")
    if mode is not Mode.CYCLE and (said is None or getattr(said.node, "text", None) == mode):
        value.refuse(
            f"only a run of mode 'cycle' has turns, and this one is {mode}",
            "add 'mode: cycle', or take it out",
        )
    return value.read(integer(1, MOST_RAPID_CYCLES), default)
