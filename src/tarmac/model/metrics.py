"""Metrics that runs report, as observed facts: records, and the port of their store.

The nodes of a run append reports to a file each; engines return what is new (`abilities.ReadsReports`),
`control` decodes it into these records, `store` keeps them. A report counts exactly once: one transaction
stores it and the position in its file.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from tarmac.model.metric_points import Points
from tarmac.model.run_records import RunRecord
from tarmac.model.serving import Lease

TRAINING = "training"
"""The group of metrics whose report names none."""

VALIDATION = "validation"

MOST_SERIES = 1000
"""The most series of one run: reports under further names are left out."""


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


class SeriesKey(Struct, frozen=True, kw_only=True):
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
        ...

    def take(self, batches: Sequence[ReportBatch], *, lease: Lease | None = None) -> list[bool]:
        """Store batches, their events and their ends in one transaction; True for each that was taken.

        A batch is dropped if its `begin` is not the position of its file (another server has taken it), or if
        its run was removed. `lease` as in `Store.apply`.
        """
        ...

    def latest(self, run_ids: Collection[str]) -> dict[str, LatestReport]:
        """The newest report of each of these runs; runs without reports are left out."""
        ...

    def summaries(self, run_ids: Collection[str]) -> list[MetricSummary]:
        """Every series of these runs, by run, group, name and rank."""
        ...

    def points(self, keys: Sequence[SeriesKey]) -> dict[SeriesKey, Points]:
        """The points of these series as `metric_points.effective` selects them; unknown series have none."""
        ...

    def events(self, subscriber: str, *, after_id: int, limit: int = 1000) -> list[MetricEvent]:
        """The events of a subscriber above `after_id`, in order; none appears later below a returned id."""
        ...

    def forget_events(self, subscriber: str, *, until_id: int) -> None:
        """Remove the events of a subscriber up to this id; idempotent."""
        ...
