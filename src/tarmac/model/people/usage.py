"""The usage of attempts: slots and times, also by day and month. Read from the store by `control.reports`."""

from collections.abc import Iterator
from datetime import UTC, datetime
from enum import StrEnum

from tarmac.model.codec import replace
from tarmac.model.resources import UsageKey


class AttemptSpan(UsageKey, frozen=True, kw_only=True):
    """The slots that attempt number `attempt` of a run held from `begin` to `end` (None: it still does).

    `released`: slots of replicas that ended earlier, each with its time.
    """

    run_id: str
    attempt: int
    begin: float
    end: float | None
    slots: int
    released: tuple[tuple[float, int], ...] = ()

    def slot_s(self, since: float, until: float) -> float:
        """Slot-seconds within a range of time."""
        end = until if self.end is None else min(self.end, until)
        begin = max(self.begin, since)
        early = sum(slots * max(0.0, end - max(at, begin)) for at, slots in self.released)
        return self.slots * max(0.0, end - begin) - early

    def counted(self, since: float, until: float) -> tuple[int, int, float]:
        """Within a range of time: 1 if its run began to use slots, 1 if it began, and its slot-seconds."""
        began = since <= self.begin < until
        return int(began and self.attempt == 1), int(began), self.slot_s(since, until)


class UsedSlots(UsageKey, frozen=True, kw_only=True):
    """The usage of a user's attempts, for a project and in a pool, in the requested range of time.

    `runs` and `attempts` count those that began to use slots in it. With `per`, `begin_at` is the begin of
    the day or month.
    """

    runs: int
    attempts: int
    slot_s: float
    begin_at: float | None = None

    def with_more(self, other: "UsedSlots") -> "UsedSlots":
        """The usage together with other usage of the same key and time."""
        runs, attempts = self.runs + other.runs, self.attempts + other.attempts
        return replace(self, runs=runs, attempts=attempts, slot_s=self.slot_s + other.slot_s)


TimeRange = tuple[float, float]
"""From a time on, until before another."""

Used = tuple[list[UsedSlots], list[AttemptSpan]]
"""Sums of usage, and the attempts whose usage they lack."""


class Period(StrEnum):
    """A part of the calendar (UTC)."""

    DAY = "day"
    MONTH = "month"


DAY_S = 86_400.0


def day_begin(at: float) -> float:
    """The begin of the day (UTC) that has this moment."""
    return at // DAY_S * DAY_S


def month_begin(at: float) -> float:
    """The begin of the calendar month (UTC) that has this moment."""
    day = datetime.fromtimestamp(at, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day.replace(day=1).timestamp()


def periods(period: Period, begin: float, end: float) -> Iterator[tuple[float, float]]:
    """The days or months from the one that has `begin` to the last one before `end`, each until the next."""
    while True:
        first = month_begin(begin) if period is Period.MONTH else day_begin(begin)
        begin = month_begin(first + 32 * DAY_S) if period is Period.MONTH else first + DAY_S
        yield first, begin
        if begin >= end:
            return
