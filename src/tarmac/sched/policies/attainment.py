"""The level of a run by its used slot-seconds: the measure of the policy `least_attained`. Used by
`precedence`.

A run begins on the lowest level and climbs as it uses slot-seconds, ten times as many for each level. So runs
that may be short preempt runs that have lasted ten times longer, and similar runs finish one after another
instead of all together. docs/operating/scheduler.md explains the choice of levels.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf

FIRST_LEVEL_SLOT_S = 360.0
"""A tenth of a slot-hour: the levels are powers of ten of slot-hours, on every cluster."""

STEP = 10
"""The ratio of usage between levels for runs without a time limit."""

KNOWN_STEP = 2
"""The ratio with a time limit: the rest is known, except for the margin that people leave, so it is
smaller.
"""

LADDER: tuple[float, ...] = (0.0, *(FIRST_LEVEL_SLOT_S * STEP**number for number in range(12)))
KNOWN_LADDER: tuple[float, ...] = (
    0.0,
    *(FIRST_LEVEL_SLOT_S * KNOWN_STEP**number for number in range(40)),
)


def level(attained_slot_s: float) -> float:
    """The level of a run without a time limit, as the slot-seconds where it begins."""
    return LADDER[bisect_right(LADDER, attained_slot_s) - 1]


def known_level(left_slot_s: float) -> float:
    """The level of a run with this many slot-seconds left of its time limit, on the same scale."""
    return KNOWN_LADDER[bisect_right(KNOWN_LADDER, max(0.0, left_slot_s)) - 1]


def current_level(before_slot_s: float, slots: int, *, since: float, now: float) -> float:
    """The level of a run that used `before_slot_s` and has held `slots` slots since `since`."""
    index = bisect_right(LADDER, before_slot_s)
    while slots and index < len(LADDER) and _reaches_at(index, before_slot_s, slots, since) <= now:
        index += 1
    return LADDER[index - 1]


def climbs_at(before_slot_s: float, slots: int, *, since: float, now: float) -> float:
    """When such a run reaches the level after its present one (inf: never)."""
    index = LADDER.index(current_level(before_slot_s, slots, since=since, now=now)) + 1
    if not slots or index == len(LADDER):
        return inf
    return _reaches_at(index, before_slot_s, slots, since)


def _reaches_at(index: int, before_slot_s: float, slots: int, since: float) -> float:
    """Shared by both functions, so that a cycle at exactly that time finds the level reached."""
    return since + (LADDER[index] - before_slot_s) / slots
