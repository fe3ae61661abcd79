"""Metrics that runs report, as observed facts: records, and the port of their store.

The nodes of a run append reports to a file each; engines return what is new (`abilities.ReadsReports`),
`control` decodes it into these records, `store` keeps them. A report counts exactly once: one transaction
stores it and the position in its file.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from math import isfinite
from operator import lt
from typing import Any, Protocol

from msgspec import Struct, field

from tarmac.model.actor import Lease
from tarmac.model.run_records import RunRecord

TRAINING = "training"
"""The group of metrics whose report names none."""

VALIDATION = "validation"

MOST_SERIES = 1000
"""The most series of one run: reports under further names are left out."""

NO_STEP = -(2**63)
"""The value for a report without a step."""

POINT_BYTES = 24


class MetricReport(Struct, frozen=True, kw_only=True):
    """One report of a worker: its numbers (also those that are not finite), and its other values as text.

    `rank` is that of the reporting process, `progress` goes from 0 to 1.
    """

    at: float
    rank: int = 0
    step: int | None = None
    group: str = TRAINING
    progress: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


class MetricEvent(Struct, frozen=True, kw_only=True):
    """An event for a subscriber, stored in the transaction of its report (`MetricStore.events`).

    `subscriber` is its name; `body` is in its own form. `id` counts up, and is 0 before the event is stored.
    """

    subscriber: str
    run_id: str
    attempt: int
    at: float
    step: int | None
    body: Mapping[str, Any]
    id: int = 0


class ReportBatch(Struct, frozen=True, kw_only=True):
    """The reports of one node from byte `begin` to byte `end` of its file.

    `records` are stored in the same transaction.
    """

    run_id: str
    attempt: int
    node: str
    begin: int
    end: int
    reports: tuple[MetricReport, ...] = ()
    events: tuple[MetricEvent, ...] = ()
    records: tuple[RunRecord, ...] = ()


class LatestReport(Struct, frozen=True, kw_only=True):
    """The newest report of a run, with its attempt and its node."""

    attempt: int
    node: str
    report: MetricReport


class SeriesKey(Struct, frozen=True, kw_only=True, order=True):
    """The key of a series: a metric of a run as one rank reported it."""

    run_id: str
    group: str
    name: str
    rank: int = 0


class Extreme(Struct, frozen=True, kw_only=True):
    """A value and the step of its report."""

    value: float
    step: int | None


class MetricSummary(Struct, frozen=True, kw_only=True):
    """A summary of a series: its count, and its last, lowest and highest value (None: none is finite).

    `total` is the sum of all; None if the series began before sums were stored.
    """

    key: SeriesKey
    count: int
    last: Extreme
    last_at: float
    low: Extreme | None
    high: Extreme | None
    total: float | None


Position = tuple[str, int, str]
"""A file of reports: run, attempt, node."""


class MetricStore(Protocol):
    """The durable record of metrics. Errors are those of `ports.Store`; a removed run loses its metrics."""

    def positions(self, run_ids: Collection[str]) -> dict[Position, int]:
        """The byte position up to which the reports of these runs were taken; unnamed files are at 0."""

    def take(self, batches: Sequence[ReportBatch], *, lease: Lease | None = None) -> list[bool]:
        """Store batches, their events and their ends in one transaction; True for each that was taken.

        A batch is dropped if its `begin` is not the position of its file (another server has taken it), or if
        its run was removed. `lease` as in `Store.apply`.
        """

    def latest(self, run_ids: Collection[str]) -> dict[str, LatestReport]:
        """The newest report of each of these runs; runs without reports are left out."""

    def summaries(self, run_ids: Collection[str]) -> list[MetricSummary]:
        """Every series of these runs, by run, group, name and rank."""

    def points(self, keys: Sequence[SeriesKey]) -> dict[SeriesKey, Points]:
        """The points of these series as `metric_points.effective` selects them; unknown series have none."""

    def events(self, subscriber: str, *, after_id: int, limit: int = 1000) -> list[MetricEvent]:
        """The events of a subscriber above `after_id`, in order; none appears later below a returned id."""

    def forget_events(self, subscriber: str, *, until_id: int) -> None:
        """Remove the events of a subscriber up to this id; idempotent."""


class Points(Struct, frozen=True):
    """Points in the order of their reports: step (or NO_STEP), time in seconds, value."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.steps)

    def add(self, step: int | None, at: float, value: float) -> None:
        """Add a point at the end."""
        self.steps.append(NO_STEP if step is None else step)
        self.times.append(at)
        self.values.append(value)

    def extend(self, other: Points) -> None:
        """Add all points of another at the end."""
        self.steps.extend(other.steps)
        self.times.extend(other.times)
        self.values.extend(other.values)

    def pick(self, places: Iterable[int]) -> Points:
        """The points at these places."""
        chosen = list(places)
        return Points(
            array("q", [self.steps[at] for at in chosen]),
            array("d", [self.times[at] for at in chosen]),
            array("d", [self.values[at] for at in chosen]),
        )

    def part(self, begin: int, end: int) -> Points:
        """The points from `begin` to before `end`."""
        return Points(self.steps[begin:end], self.times[begin:end], self.values[begin:end])

    def to_bytes(self) -> bytes:
        """All columns, each in little-endian order."""
        columns = (self.steps, self.times, self.values)
        return b"".join(_swapped(column).tobytes() for column in columns)


def points_of(content: bytes) -> Points:
    """The inverse of `Points.to_bytes`; raises ValueError for any other content."""
    if len(content) % POINT_BYTES:
        raise ValueError(f"{len(content)} bytes hold no whole number of points")
    size = len(content) // 3
    found = Points()
    columns: tuple[array[int] | array[float], ...] = (found.steps, found.times, found.values)
    for number, column in enumerate(columns):
        column.frombytes(content[number * size : (number + 1) * size])
        if sys.byteorder == "big":
            column.byteswap()
    return found


def effective(attempts: Sequence[Points]) -> Points:
    """The points of a metric that count, from those of each attempt in order; by step, if all have one."""
    parts: list[Points] = []
    bound: int | None = None
    for points in reversed(attempts):
        kept = points if bound is None else _below(points, bound)
        first = first_step(points)
        if first is not None:
            bound = first if bound is None else min(bound, first)
        parts.append(_last_of_each_step(kept))
    found = Points()
    for part in reversed(parts):
        found.extend(part)
    return found


def first_step(points: Points) -> int | None:
    """The first reported step."""
    return next((step for step in points.steps if step != NO_STEP), None)


def between(
    points: Points, column: Sequence[float], first: float | None = None, last: float | None = None
) -> Points:
    """The points from `first` to `last` of a column (its steps or its times), and the nearest on each side.

    A curve through them reaches the borders of the range. None is no border.
    """
    begin = 0 if first is None else max(0, bisect_left(column, first) - 1)
    end = len(points) if last is None else bisect_right(column, last) + 1
    return points.part(begin, end) if begin > 0 or end < len(points) else points


def thinned(points: Points, most: int) -> Points:
    """At most `most` points that draw the same curve: the lowest and the highest of each bucket, one that is
    not finite if there is any, and always the first and the last.
    """
    count = len(points)
    if count <= most or count < 3:
        return points
    buckets = max(1, (most - 2) // 3)
    values = points.values
    places = {0, count - 1}
    for number in range(buckets):
        begin, end = count * number // buckets, count * (number + 1) // buckets
        piece = values[begin:end]
        if not isfinite(sum(piece)):
            odd = next((at for at, value in enumerate(piece) if not isfinite(value)), None)
            if odd is not None:
                places.add(begin + odd)
                finite = [at for at, value in enumerate(piece) if isfinite(value)]
                if finite:
                    places.add(begin + min(finite, key=piece.__getitem__))
                    places.add(begin + max(finite, key=piece.__getitem__))
                continue
        places.add(begin + piece.index(min(piece)))
        places.add(begin + piece.index(max(piece)))
    return points.pick(sorted(places))


def _below(points: Points, bound: int) -> Points:
    """The points of steps below a bound, and those without a step."""
    if all(step < bound for step in points.steps):
        return points
    return points.pick(at for at, step in enumerate(points.steps) if step < bound)


def _last_of_each_step(points: Points) -> Points:
    """The last point of each step, in order; all points if no report has a step."""
    steps = points.steps
    if all(map(lt, steps, islice(steps, 1, None))):
        return points
    last = {step: at for at, step in enumerate(steps) if step != NO_STEP}
    if not last:
        return points
    without = [at for at, step in enumerate(steps) if step == NO_STEP]
    return points.pick(sorted([*last.values(), *without], key=lambda at: (steps[at], at)))


def _swapped(column: array[int] | array[float]) -> array[int] | array[float]:
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column
