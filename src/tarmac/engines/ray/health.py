"""Whether a node can take work, judged from its agent's facts. Called by `node` and by the check of clusters.

Disks are checked separately, by writing to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LEAST_MEMORY_SHARE = 0.02
LEAST_MEMORY_BYTES, MOST_MEMORY_BYTES = 256 << 20, 2 << 30
"""A node with less than this share of its memory free, within these bounds, is nearly full."""

WELL_AGAIN = 2.0
"""Factor of free memory at which a node counts as healthy again."""

MOST_AHEAD_S = 30.0
"""A clock that differs more from ours makes times of files and logs, and certificates, wrong."""

PROBLEMS_SHOWN = 3


def problem(facts: Mapping[str, Any], *, sent_at: float, received_at: float, before: str) -> str:
    """Why no new work should start on a node with these facts, requested between these times; "" if none.

    `before` is the problem at the last check.
    """
    found = [_memory(facts, before), _clock(facts, sent_at, received_at), *facts["gpu_problems"]]
    words = [each for each in found if each]
    if len(words) > PROBLEMS_SHOWN:
        words = [*words[:PROBLEMS_SHOWN], f"and {len(words) - PROBLEMS_SHOWN} more"]
    return "; ".join(words)


def ahead_s(at: float, *, sent_at: float, received_at: float) -> float:
    """The minimum lead of a clock that showed `at` over ours, in seconds; below 0: it is behind."""
    return max(0.0, at - received_at) + min(0.0, at - sent_at)


def _memory(facts: Mapping[str, Any], before: str) -> str:
    free, whole = facts["free_memory_bytes"], facts["memory_bytes"]
    least = min(max(LEAST_MEMORY_BYTES, whole * LEAST_MEMORY_SHARE), MOST_MEMORY_BYTES)
    if free >= least * (WELL_AGAIN if _MEMORY in before else 1.0):
        return ""
    return f"{_MEMORY}: {free / 2**30:.1f} of {whole / 2**30:.1f} GiB free"


_MEMORY = "its memory is nearly full"


def _clock(facts: Mapping[str, Any], sent_at: float, received_at: float) -> str:
    found_s = ahead_s(facts["at"], sent_at=sent_at, received_at=received_at)
    if abs(found_s) <= MOST_AHEAD_S:
        return ""
    return f"its clock is {abs(found_s):.0f} s {'ahead of' if found_s > 0 else 'behind'} that of the server"
