"""What a play comes to in numbers: completion, queueing, makespan, utilisation, preemptions, fairness.

Made from a record when a play is over, or interrupted. Docs/simulate.md defines each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.simulator.accuracy import Accuracy, Estimates
from tarmac.simulator.fairness import Fairness, by_life, static
from tarmac.simulator.promises import PromiseBook, Promises
from tarmac.simulator.record import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """The numbers of one play; those of jobs speak of the ones that have ended (None: none has)."""

    ended: int
    unfinished: int
    never_fits: int
    failed: int
    completion_mean_s: float | None
    completion_p50_s: float | None
    completion_p99_s: float | None
    queueing_mean_s: float | None
    makespan_s: float
    utilisation: float
    preemptions: int
    fairness: Fairness
    fairness_by_life: Fairness
    estimates: Accuracy | None = None
    promises: Promises | None = None


def measures(
    record: Record, slots: int, estimates: Estimates | None = None, promises: PromiseBook | None = None
) -> Measures:
    """The numbers of a play on so many slots; of estimates and promises only where they were noted."""
    gone = [passage for passage in record.passages.values() if passage.ended_at is not None]
    completions_s = sorted(passage.completion_s for passage in gone)
    queueing_s = [passage.completion_s - passage.held_s for passage in gone]
    return Measures(
        ended=len(gone),
        unfinished=len(record.jobs) - len(gone) - len(record.never_fits),
        never_fits=len(record.never_fits),
        failed=sum(passage.failed for passage in gone),
        completion_mean_s=_mean(completions_s),
        completion_p50_s=percentile(completions_s, 0.5),
        completion_p99_s=percentile(completions_s, 0.99),
        queueing_mean_s=_mean(queueing_s),
        makespan_s=record.times[-1] - record.times[0] if record.times else 0.0,
        utilisation=utilisation(record, slots),
        preemptions=sum(passage.preemptions for passage in record.passages.values()),
        fairness=static(record, slots),
        fairness_by_life=by_life(record, slots),
        estimates=estimates.accuracy(record.passages) if estimates is not None else None,
        promises=promises.promises(record.passages, slots, record.now) if promises is not None else None,
    )


def utilisation(record: Record, slots: int) -> float:
    """The share of all slots that was held, on the average from the first submission to the end."""
    times, busy = record.times, record.busy_slots
    span_s = times[-1] - times[0] if times else 0.0
    if not span_s or not slots:
        return 0.0
    slot_s = math.fsum((after - at) * used for at, after, used in zip(times, times[1:], busy, strict=False))
    return slot_s / (span_s * slots)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The smallest of these values, in order, that at least `share` (0 to 1) of them do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else None


def _mean(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
