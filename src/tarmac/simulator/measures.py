"""The figures of a play: completion, queueing, makespan, utilisation, preemptions, fairness.

Made from a record when a play is over, or interrupted. Docs/operating/simulate.md defines each.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from tarmac.model.run import Run
from tarmac.sched import Estimate
from tarmac.simulator.record import Passage, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The figures of one play; those of jobs cover the ended ones (None: none has ended)."""

    ended: int
    unfinished: int
    never_fits: int
    failed: int
    completion_mean_s: float | None
    completion_p50_s: float | None
    completion_p99_s: float | None
    queueing_mean_s: float | None
    queueing_p50_s: float | None
    queueing_p99_s: float | None
    makespan_s: float
    utilisation: float
    preemptions: int
    fairness: Fairness
    fairness_by_life: Fairness
    estimates: Accuracy | None = None
    promises: Promises | None = None
    rentals: Rentals | None = None


def measures(
    record: Record,
    slots: int,
    estimates: Estimates | None = None,
    promises: PromiseBook | None = None,
    *,
    renting: bool = False,
) -> Measures:
    """The figures of a play on `slots` slots; those of estimates, promises and rentals only if given."""
    gone = [passage for passage in record.passages.values() if passage.ended_at is not None]
    completions_s = sorted(passage.completion_s for passage in gone)
    queueing_s = sorted(passage.completion_s - passage.held_s for passage in gone)
    return Measures(
        ended=len(gone),
        unfinished=len(record.jobs) - len(gone) - len(record.never_fits),
        never_fits=len(record.never_fits),
        failed=sum(passage.failed for passage in gone),
        completion_mean_s=_mean(completions_s),
        completion_p50_s=percentile(completions_s, 0.5),
        completion_p99_s=percentile(completions_s, 0.99),
        queueing_mean_s=_mean(queueing_s),
        queueing_p50_s=percentile(queueing_s, 0.5),
        queueing_p99_s=percentile(queueing_s, 0.99),
        makespan_s=record.times[-1] - record.times[0] if record.times else 0.0,
        utilisation=utilisation(record, slots),
        preemptions=sum(passage.preemptions for passage in record.passages.values()),
        fairness=static(record, slots),
        fairness_by_life=by_life(record, slots),
        estimates=estimates.accuracy(record.passages) if estimates is not None else None,
        promises=promises.promises(record.passages, slots, record.now) if promises is not None else None,
        rentals=rentals(record) if renting else None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rentals:
    """The jobs that rented machines, and the cost of these.

    `without_offer` is the number of jobs that waited long enough, and rented nothing in all of their waits:
    every offer was above their rate, or more than was left of the budget.
    """

    jobs: int
    cost: float
    machine_hours: float
    without_offer: int


def rentals(record: Record) -> Rentals:
    """The rentals of a play until now."""
    found = {number: each.rented for number, each in record.passages.items() if each.rented is not None}
    return Rentals(
        jobs=len(found),
        cost=math.fsum(each.cost(record.now) for each in found.values()),
        machine_hours=math.fsum(each.machines * each.hours(record.now) for each in found.values()),
        without_offer=len(record.without_offer - found.keys()),
    )


def utilisation(record: Record, slots: int) -> float:
    """The share of all slots that was held, on average from the first submission to the end."""
    times, busy = record.times, record.busy_slots
    span_s = times[-1] - times[0] if times else 0.0
    if not span_s or not slots:
        return 0.0
    slot_s = math.fsum((after - at) * used for at, after, used in zip(times, times[1:], busy, strict=False))
    return slot_s / (span_s * slots)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest of these sorted values that at least `share` (0 to 1) of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None


LEAST_WAIT_S = 60.0
"""Shorter waits are left out: their error would be a share of nearly nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """The errors of estimates, over jobs that waited.

    `count` estimates could be compared, `with_time` of them had a time. The errors are the medians of those:
    as a share of the wait, and in seconds. `in_time_share`: of the predicted latest starts (all time limits
    used up), the share that was kept; None if none was predicted.
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
        """Add an estimate of a job, made at `at`."""
        self._made[number] = at, estimate

    def accuracy(self, passages: Mapping[int, Passage]) -> Accuracy:
        """The accuracy of the estimates whose jobs have started."""
        errors: list[tuple[float, float]] = []
        in_time: list[bool] = []
        count = 0
        for number, (at, estimate) in self._made.items():
            started_at = passages[number].started_at
            if passages[number].rented is not None or started_at is None or started_at - at < LEAST_WAIT_S:
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


TOLERANCE_S = 1.0
"""Blocks that are shorter by less count as kept, because runs come and go at whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """The kept share of promises, over periods that are over.

    `granted` shares were promised and `kept` of them were given completely (a job that ended within the
    period got all it needed); `least_share` is the smallest part of one that was given. `one_at_a_time` is
    the utilisation if the blocks ran one after the other.
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
        """Add the present shares of runs; `runs` are pairs of a job's number and its run."""
        for number, run in runs:
            if run.share is not None:
                left_s = max(0.0, run.share.allotted_s - run.share.used_s)
                self._granted.setdefault((number, run.share.period_at), left_s)

    def promises(self, passages: Mapping[int, Passage], slots: int, until: float) -> Promises | None:
        """The result up to `until`; None if nothing was promised."""
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


UNFAIR_ABOVE = 1.05
"""The ratio to its fair time up to which a job was treated fairly."""

LEAST_WORK_S = 1e-9
"""Jobs with less work have no fair time, and are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fairness:
    """The worst ratio of any job that has ended, and the share of unfairly treated jobs."""

    worst: float | None
    unfair_share: float | None


def static(record: Record, slots: int) -> Fairness:
    """By a constant share: the trace's jobs per slot (as in the published tables)."""
    contention = max(1.0, len(record.jobs) / max(1, slots))
    return _fairness(record, lambda _passage: contention)


def by_life(record: Record, slots: int) -> Fairness:
    """By the average number of jobs per slot during each job's own life."""
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
