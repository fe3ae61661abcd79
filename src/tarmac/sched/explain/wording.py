"""Words for people: names of several runs, lengths of time, counts. Used by `explain` and `whatif`."""

from __future__ import annotations

from collections.abc import Sequence

NAMES_SHOWN = 4
"""A sentence names at most so many runs or nodes."""


def some(names: Sequence[str], noun: str = "run") -> str:
    """`run a`, `runs a and b`, `runs a, b, c, d and 7 others`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    return f"{noun}s {listed(names)}"


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b, c, d and 7 others`."""
    if len(names) == 1:
        return names[0]
    shown = list(names[:NAMES_SHOWN])
    rest = len(names) - len(shown)
    last = counted(rest, "other") if rest else shown.pop()
    return f"{', '.join(shown)} and {last}"


def counted(number: int, noun: str) -> str:
    """`1 slot`, `3 slots`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """A length of time in the unit that says most: `90 s`, `12 min`, `5 h`, `3 d`."""
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
