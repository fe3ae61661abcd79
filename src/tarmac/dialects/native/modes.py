"""Reads the mode of a run, and how many turns a cycle run has. Used by the reader and by overrides."""

from __future__ import annotations

from tarmac.dialects.kinds import choice, integer
from tarmac.dialects.section import Section
from tarmac.model.spec import Mode

MOST_RAPID_CYCLES = 5


def read_mode(run: Section, default: Mode = Mode.BATCH) -> Mode:
    """The mode. Whether a cluster can be had for a burst run is seen when it is submitted."""
    return run.read("mode", choice(Mode), default)


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
