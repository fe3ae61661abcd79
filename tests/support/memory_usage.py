"""Sums of usage as the store has them, from all attempts, for `MemoryStore`."""

from collections.abc import Iterable, Sequence

from tarmac.model.codec import inherited
from tarmac.model.people.usage import AttemptSpan, Period, TimeRange, Used, UsedSlots, periods
from tarmac.model.resources import UsageKey
from tarmac.model.run import Attempt, Run
from tarmac.store.spans import span_of


def spans_of(run: Run, attempts: Iterable[Attempt]) -> list[AttemptSpan]:
    """The usage of the attempts of a run that have held their allocation."""
    return [span for each in attempts if (span := span_of(run, each)) is not None]


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
