"""Text for people: reasons of many nodes in few lines, names of several runs, durations.

Used by `explain`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.model.reason import Reason, ReasonCode

NAMES_SHOWN = 4
"""The most runs or nodes that a sentence names."""

NODES_SHOWN = 64
"""The most nodes that get a reason each."""

HOLDERS = "; held by "
"""After this text a reason names the holders of a node. A reason of many nodes omits them."""


def grouped(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """The same reasons if they are few; otherwise one for all nodes that share it, the most nodes first."""
    if len(reasons) <= NODES_SHOWN:
        return tuple(reasons)
    nodes: dict[tuple[ReasonCode, str], list[str]] = {}
    shown: list[Reason] = []
    for reason in reasons:
        if reason.node is None:
            shown.append(reason)
        else:
            nodes.setdefault((reason.code, reason.text.partition(HOLDERS)[0]), []).append(reason.node)
    groups = sorted(nodes.items(), key=lambda item: -len(item[1]))
    return (*shown, *(_of_all(names, code, text) for (code, text), names in groups))


def _of_all(names: Sequence[str], code: ReasonCode, text: str) -> Reason:
    if len(names) == 1:
        return Reason(code=code, text=text, node=names[0])
    shown = ", ".join(names[:NAMES_SHOWN])
    rest = len(names) - NAMES_SHOWN
    which = f"{shown} and {rest} more" if rest > 0 else shown
    return Reason(code=code, text=f"{len(names)} nodes ({which}): {text}")


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
    """A duration in its most fitting unit: `90 s`, `12 min`, `5 h`, `3 d`."""
    for unit, length_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{max(1, round(seconds))} s"
