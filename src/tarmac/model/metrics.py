"""Metrics that runs report, as observed facts: records, and the port of their store.

A run's nodes append reports to a file each; engines show what was added (`abilities.ReadsReports`),
`control` reads it into these records, `store` keeps them. A report is taken exactly once: it is kept in one
transaction with how far its file was read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tarmac.model.metric_points import Points
from tarmac.model.run_records import RunRecord
from tarmac.model.serving import Lease

TRAINING = "training"
"""The group of metrics whose report names none."""

VALIDATION = "validation"

MOST_SERIES = 1000
"""Of one run: what it reports under further names is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricReport:
    """One report of a worker: the numbers in it (not finite ones too), and what else it said as text.

    `rank` is that of the process that reported, `progress` goes from 0 to 1.
    """

    at: float
    rank: int = 0
    step: int | None = None
    group: str = TRAINING
    progress: float | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricEvent:
    """What somebody subscribed to, kept in the transaction that keeps its report (`MetricStore.events`).

    `subscriber` names who; `body` is theirs. `id` counts up, and is 0 before the event is kept.
    """

    subscriber: str
    run_id: str
    attempt: int
    at: float
    step: int | None
    body: Mapping[str, Any]
    id: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportBatch:
    """What was read of the reports of one node, from byte `begin` to byte `end` of its file.

    `records` are kept in the same transaction.
    """

    run_id: str
    attempt: int
    node: str
    begin: int
    end: int
    reports: tuple[MetricReport, ...] = ()
    events: tuple[MetricEvent, ...] = ()
    records: tuple[RunRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestReport:
    """The newest report of a run, with its attempt and the node it came from."""

    attempt: int
    node: str
    report: MetricReport


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesKey:
    """Which series: a metric of a run as one rank reported it."""

    run_id: str
    group: str
    name: str
    rank: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Extreme:
    """A value with the step it was reported for."""

    value: float
    step: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSummary:
    """A series in short: how many reports, the last, the lowest and the highest (None: none is finite).

    `total` is the sum of all; None where the series began before sums were kept.
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
    """The durable record of metrics. Errors are those of `ports.Store`; all goes when its run is removed."""

    def positions(self, run_ids: Collection[str]) -> dict[Position, int]:
        """Up to which byte the reports of these runs were taken; a file that is not named: none of it."""
        ...

    def take(self, batches: Sequence[ReportBatch], *, lease: Lease | None = None) -> list[bool]:
        """Keep batches, their events and their ends in one transaction; True for each that was taken.

        One whose `begin` is not where its file was taken up to is dropped (somebody else has taken it), as
        is one of a run that there is no more. `lease` as in `Store.apply`.
        """
        ...

    def latest(self, run_ids: Collection[str]) -> dict[str, LatestReport]:
        """The newest report of each of these runs; a run that has reported nothing is left out."""
        ...

    def summaries(self, run_ids: Collection[str]) -> list[MetricSummary]:
        """Every series of these runs, by run, group, name and rank."""
        ...

    def points(self, keys: Sequence[SeriesKey]) -> dict[SeriesKey, Points]:
        """The points of these series as `metric_points.effective` has them; none of a series unknown."""
        ...

    def events(self, subscriber: str, *, after_id: int, limit: int = 1000) -> list[MetricEvent]:
        """The events of a subscriber with an id above `after_id`, in order; none appears below one seen."""
        ...

    def forget_events(self, subscriber: str, *, until_id: int) -> None:
        """Remove the events of a subscriber up to this id; idempotent."""
        ...
