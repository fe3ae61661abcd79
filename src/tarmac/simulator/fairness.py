"""Finish-time fairness: how much longer a job took than it would have on a fair share of the slots.

Defined as by the authors of Themis and Shockwave (docs/simulate.md says where). Called by `measures`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

from tarmac.simulator.record import Passage, Record

UNFAIR_ABOVE = 1.05
"""A job that took this many times its fair time, or less, was treated fairly."""

LEAST_WORK_S = 1e-9
"""Jobs that do nothing at all have no fair time, and are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """The worst ratio of any job that has ended, and the share of those that were treated unfairly."""

    worst: float | None
    unfair_share: float | None


def static(record: Record, slots: int) -> Fairness:
    """Against a share that is the same for all: jobs of the trace per slot (the published tables' way)."""
    contention = max(1.0, len(record.jobs) / max(1, slots))
    return _fairness(record, lambda _passage: contention)


def by_life(record: Record, slots: int) -> Fairness:
    """Against the jobs there were per slot, on the average of each job's own life."""
    times, present = record.times, record.present
    spans = ((after - at) * count for at, after, count in zip(times, times[1:], present, strict=False))
    sums = [0.0, *accumulate(spans)]

    def until(at: float) -> float:
        index = bisect_right(times, at) - 1
        return sums[index] + (at - times[index]) * present[index]

    def contention(passage: Passage) -> float:
        begun, ended = passage.submitted_at, passage.ended_at
        if ended is None or ended <= begun:
            return 1.0
        return max(1.0, (until(ended) - until(begun)) / (ended - begun) / max(1, slots))

    return _fairness(record, contention)


def _fairness(record: Record, contention: Callable[[Passage], float]) -> Fairness:
    ratios = [
        passage.completion_s / (passage.job.duration_s * contention(passage))
        for passage in record.passages.values()
        if passage.ended_at is not None and passage.job.duration_s > LEAST_WORK_S
    ]
    if not ratios:
        return Fairness(worst=None, unfair_share=None)
    unfair = sum(ratio > UNFAIR_ABOVE for ratio in ratios)
    return Fairness(worst=max(ratios), unfair_share=unfair / len(ratios))
