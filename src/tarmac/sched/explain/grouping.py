"""Reasons of many nodes told in few lines. Used by `explain`."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.sched.decisions import Reason, ReasonCode
from tarmac.sched.explain.wording import NAMES_SHOWN

NODES_TOLD = 64
"""Up to so many nodes are told one by one."""

HOLDERS = "; held by "
"""After this a reason names who holds a node: of many nodes that is not told."""


def grouped(reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """The reasons as they are if they are few; else one for all nodes that share it, the most first."""
    if len(reasons) <= NODES_TOLD:
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
