"""How far runs have got, on a ladder: the measure behind the policy `least_attained`. Used by `precedence`.

A run begins on the lowest level and climbs as it uses slot-seconds, ten times as many for each level. So what
has lasted ten times longer is preempted by what may still be short, and runs alike are done one after another
instead of all by halves. docs/operating/scheduler.md tells why the levels lie where they do.
"""

from __future__ import annotations

from bisect import bisect_right
from math import inf

FIRST_LEVEL_SLOT_S = 360.0
"""A tenth of a slot-hour: the levels are powers of ten of slot-hours, on every cluster."""

STEP = 10
"""How many times more a run without a time limit has used on the next level: then it counts as long."""

KNOWN_STEP = 2
"""With a time limit it is known how much is left, up to the margin people leave: levels may lie closer."""

LADDER: tuple[float, ...] = (0.0, *(FIRST_LEVEL_SLOT_S * STEP**number for number in range(12)))
KNOWN_LADDER: tuple[float, ...] = (
    0.0,
    *(FIRST_LEVEL_SLOT_S * KNOWN_STEP**number for number in range(40)),
)


def level(attained_slot_s: float) -> float:
    """The level of a run of which nothing but its past is known, told by where it begins in slot-seconds."""
    return LADDER[bisect_right(LADDER, attained_slot_s) - 1]


def known_level(left_slot_s: float) -> float:
    """The level of a run whose time limit leaves it this much, on the same scale."""
    return KNOWN_LADDER[bisect_right(KNOWN_LADDER, max(0.0, left_slot_s)) - 1]


def current_level(before_slot_s: float, slots: int, *, since: float, now: float) -> float:
    """The level of a run that used `before_slot_s` and has held so many slots since then."""
    index = bisect_right(LADDER, before_slot_s)
    while slots and index < len(LADDER) and _reaches_at(index, before_slot_s, slots, since) <= now:
        index += 1
    return LADDER[index - 1]


def climbs_at(before_slot_s: float, slots: int, *, since: float, now: float) -> float:
    """When such a run reaches the level after the one it is on now (inf: never)."""
    index = LADDER.index(current_level(before_slot_s, slots, since=since, now=now)) + 1
    if not slots or index == len(LADDER):
        return inf
    return _reaches_at(index, before_slot_s, slots, since)


def _reaches_at(index: int, before_slot_s: float, slots: int, since: float) -> float:
    """One computation for both, so that a cycle made at the moment told finds the level reached."""
    return since + (LADDER[index] - before_slot_s) / slots
