"""What interruptible runs were promised of each period, and what they got of it.

Kept by `playing` while there are such jobs, and told by `measures`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tarmac.model.run import Run
from tarmac.simulator.record import Passage

TOLERANCE_S = 1.0
"""A block that is short by less was kept: runs come and go at whole moments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """How the promised shares were kept, over periods that are over.

    `granted` shares were promised and `kept` of them were given whole (a job that ended within the period
    got all it needed); `least_share` is the smallest part of one that was given. `one_at_a_time` is what the
    utilisation would be if the blocks were run one after the other.
    """

    granted: int
    kept: int
    least_share: float
    one_at_a_time: float


class PromiseBook:
    """The shares of each period, by job and period."""

    def __init__(self, period_s: float) -> None:
        self._period_s = period_s
        self._granted: dict[tuple[int, float], float] = {}

    def note(self, runs: Iterable[tuple[int, Run]]) -> None:
        """Take up the shares that runs have now; `runs` are the numbers of their jobs, and they."""
        for number, run in runs:
            if run.share is not None:
                self._granted.setdefault((number, run.share.period_at), run.share.allotted_s)

    def promises(self, passages: Mapping[int, Passage], slots: int, until: float) -> Promises | None:
        """How they were kept up to then; None where nothing was promised."""
        shares, demanded_s, promised_s = [], 0.0, 0.0
        for (number, period_at), allotted_s in self._granted.items():
            ends = period_at + self._period_s
            passage = passages[number]
            if ends > until or not allotted_s:
                continue
            demanded_s += allotted_s * passage.job.slots
            promised_s += allotted_s * slots
            ended = passage.ended_at is not None and passage.ended_at <= ends
            going = [(passage.placed_at, until)] if passage.placed_at is not None else []
            got_s = math.fsum(
                max(0.0, min(end, ends) - max(begin, period_at)) for begin, end in passage.intervals + going
            )
            shares.append(1.0 if ended or got_s >= allotted_s - TOLERANCE_S else got_s / allotted_s)
        if not shares:
            return None
        return Promises(
            granted=len(shares),
            kept=sum(share == 1.0 for share in shares),
            least_share=min(shares),
            one_at_a_time=demanded_s / promised_s,
        )
