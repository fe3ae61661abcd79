"""How good the estimates of starts are: asked for when a job has just been queued, held against its start.

Kept by `playing` where it is asked to; told by `measures`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from tarmac.sched import Estimate
from tarmac.simulator.record import Passage

LEAST_WAIT_S = 60.0
"""Shorter waits say little: their error would be a share of nearly nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """How far estimates lay from what came, over jobs that waited.

    `count` estimates were made and could be judged, `with_time` of them named a time. The errors are the
    medians of those: as a share of the wait, and in seconds. `in_time_share`: of the latest starts that
    were predicted (all time limits used up), the share that came true; None where none was predicted.
    """

    count: int
    with_time: int
    error_share: float | None
    error_s: float | None
    in_time_share: float | None


class Estimates:
    """The estimates of a play, by the number of the job."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[float, Estimate]] = {}

    def note(self, number: int, at: float, estimate: Estimate) -> None:
        """An estimate was made for a job then."""
        self._made[number] = at, estimate

    def accuracy(self, passages: Mapping[int, Passage]) -> Accuracy:
        """What came of them, as far as the jobs have started."""
        errors: list[tuple[float, float]] = []
        in_time: list[bool] = []
        count = 0
        for number, (at, estimate) in self._made.items():
            started_at = passages[number].started_at
            if started_at is None or started_at - at < LEAST_WAIT_S:
                continue
            count += 1
            if estimate.start_at is not None:
                error_s = abs(estimate.start_at - started_at)
                errors.append((error_s / (started_at - at), error_s))
            if estimate.latest_at is not None:
                in_time.append(started_at <= estimate.latest_at + 1.0)
        return Accuracy(
            count=count,
            with_time=len(errors),
            error_share=median(share for share, _ in errors) if errors else None,
            error_s=median(error_s for _, error_s in errors) if errors else None,
            in_time_share=sum(in_time) / len(in_time) if in_time else None,
        )
