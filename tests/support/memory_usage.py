"""Sums of usage as the store has them, from all attempts, for `MemoryStore`."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tarmac.model.codec import inherited
from tarmac.model.people.usage import AttemptSpan, Period, TimeRange, Used, UsedSlots, periods
from tarmac.model.resources import UsageKey
from tarmac.model.run import Attempt, Run


def spans_of(run: Run, attempts: Iterable[Attempt]) -> list[AttemptSpan]:
    """The usage of the attempts of a run that have held their allocation."""
    return [span for each in attempts if (span := _span_of(run, each)) is not None]


def _span_of(of: Run, known: Attempt) -> AttemptSpan | None:
    """An attempt as usage; None if it has not held its allocation yet."""
    begin, allocation, slots = known.allocated_at, known.allocation, Counter[tuple[str, int]]()
    if begin is None:
        return None
    for each in allocation.placements:
        slots[each.role, each.replica] += len(each.slots)
    return AttemptSpan(
        run_id=of.id,
        attempt=known.number,
        user=of.user,
        project=of.project,
        cluster=allocation.cluster,
        pool=allocation.pool,
        begin=begin,
        end=known.ended_at,
        slots=allocation.slots,
        released=tuple((each.at, slots[each.role, each.replica]) for each in known.released),
    )


def used_slots(
    spans: Iterable[AttemptSpan], days: TimeRange, others: Sequence[TimeRange], *, by_day: bool
) -> Used:
    """See `Store.used_slots`: a row for each attempt and day."""
    used: list[UsedSlots] = []
    left: list[AttemptSpan] = []
    for span in spans:
        end = span.end
        if end is None or any(span.begin < until and end > since for since, until in others):
            left.append(span)
        for at, after in periods(Period.DAY, span.begin, end) if end is not None else ():
            if days[0] <= at < days[1]:
                runs, attempts, slot_s = span.counted(at, after)
                day, key = at if by_day else None, inherited(UsageKey, span)
                used.append(UsedSlots(**key, runs=runs, attempts=attempts, slot_s=slot_s, begin_at=day))
    return used, left
