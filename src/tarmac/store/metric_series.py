"""A stored metric series: closed chunks that never change, and a tail that grows. Used by both stores.

One row for each point would be too many, and so would one for each read: a chunk holds many points of one
attempt, and only the last is written again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from tarmac.model import metrics
from tarmac.model.codec import common

CHUNK_POINTS = 256


_NOTHING = metrics.Extreme(value=0.0, step=None)


@dataclass(slots=True)
class Totals:
    """The totals of all points that count, for summaries."""

    count: int = 0
    last: metrics.Extreme = _NOTHING
    last_at: float = 0.0
    low: metrics.Extreme | None = None
    high: metrics.Extreme | None = None
    top_step: int | None = None
    total: float | None = 0.0

    def add(self, step: int | None, at: float, value: float) -> None:
        """Count one more point."""
        self.count += 1
        self.total = None if self.total is None else self.total + value
        self.last_at = at
        self.last = here = metrics.Extreme(value=value, step=step)
        if step is not None and (self.top_step is None or step > self.top_step):
            self.top_step = step
        if isfinite(value):
            if self.low is None or value < self.low.value:
                self.low = here
            if self.high is None or value > self.high.value:
                self.high = here

    def to_json(self) -> str:
        """The totals as a text for a column."""
        pairs = [each and [each.value, each.step] for each in (self.last, self.low, self.high)]
        return json.dumps([self.count, self.last_at, self.top_step, *pairs, self.total])

    def summary(self, key: metrics.SeriesKey) -> metrics.MetricSummary:
        """The totals as a summary."""
        return metrics.MetricSummary(key=key, **common(metrics.MetricSummary, self))


def totals_from_json(text: str) -> Totals:
    """The inverse of `Totals.to_json`, also for older texts without the sum."""
    count, last_at, top_step, *pairs = json.loads(text)
    last, low, high = (pair and metrics.Extreme(value=pair[0], step=pair[1]) for pair in pairs[:3])
    return Totals(count, last, last_at, low, high, top_step, *(pairs[3:] or [None]))


def totals_of(points: metrics.Points) -> Totals:
    """The totals of these points."""
    totals = Totals()
    for step, at, value in zip(points.steps, points.times, points.values, strict=True):
        totals.add(None if step == metrics.NO_STEP else step, at, value)
    return totals


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive points of one attempt."""

    number: int
    attempt: int
    points: metrics.Points


@dataclass(slots=True)
class Series:
    """A series while reports are taken: `attempt` is that of the tail, `closed` counts the chunks before it.

    `fresh` are those closed since it was read; `rewound`: its newest attempt began at or before a step that
    an earlier one had reported, so that the totals must be counted again (`count_anew`).
    """

    attempt: int
    closed: int = 0
    totals: Totals = field(default_factory=Totals)
    tail: metrics.Points = field(default_factory=metrics.Points)
    fresh: list[Chunk] = field(default_factory=list)
    rewound: bool = False
    _joins: bool = False

    def add(self, attempt: int, step: int | None, at: float, value: float) -> None:
        """Add a point of an attempt; late points of attempts before the newest one are dropped."""
        if attempt < self.attempt:
            return
        if attempt > self.attempt:
            self._close()
            self.attempt, self._joins = attempt, True
        if self._joins and step is not None:
            self._joins = False
            top = self.totals.top_step
            self.rewound = self.rewound or (top is not None and step <= top)
        self.tail.add(step, at, value)
        self.totals.add(step, at, value)
        if len(self.tail) >= CHUNK_POINTS:
            self._close()

    def count_anew(self, closed: Iterable[Chunk]) -> None:
        """Count the totals again, from these chunks, the fresh ones and the tail."""
        self.totals = totals_of(points_that_count([*closed, *self.fresh, self.last_chunk]))
        self.rewound = False

    @property
    def last_chunk(self) -> Chunk:
        """The tail as a chunk."""
        return Chunk(self.closed, self.attempt, self.tail)

    def _close(self) -> None:
        if len(self.tail):
            self.fresh.append(self.last_chunk)
            self.closed += 1
            self.tail = metrics.Points()


def points_that_count(chunks: Sequence[Chunk]) -> metrics.Points:
    """The points of chunks, in their order, as `metric_points.effective` selects them."""
    attempts: dict[int, metrics.Points] = {}
    for chunk in chunks:
        attempts.setdefault(chunk.attempt, metrics.Points()).extend(chunk.points)
    return metrics.effective([attempts[number] for number in sorted(attempts)])


def add_batch(
    known: dict[metrics.SeriesKey, Series], counts: dict[str, int], batch: metrics.ReportBatch
) -> set[metrics.SeriesKey]:
    """Add the reports of a batch to the series of its run, and return the changed series.

    `counts` has the number of each run's series, which never exceeds MOST_SERIES.
    """
    changed = set()
    for report in batch.reports:
        for name, value in report.values.items():
            key = metrics.SeriesKey(run_id=batch.run_id, group=report.group, name=name, rank=report.rank)
            series = known.get(key)
            if series is None:
                if counts.get(batch.run_id, 0) >= metrics.MOST_SERIES:
                    continue
                counts[batch.run_id] = counts.get(batch.run_id, 0) + 1
                series = known[key] = Series(batch.attempt)
            series.add(batch.attempt, report.step, report.at, value)
            changed.add(key)
    return changed


def latest_to_json(batch: metrics.ReportBatch) -> str | None:
    """The last report of a batch as a text for a column; None if it has none."""
    if not batch.reports:
        return None
    report = batch.reports[-1]
    fields = {name: getattr(report, name) for name in ("at", "rank", "step", "group", "progress")}
    return json.dumps({**fields, "values": dict(report.values), "texts": dict(report.texts)})


def latest_from_json(text: str, *, attempt: int, node: str) -> metrics.LatestReport:
    """The inverse of `latest_to_json`."""
    fields: Mapping[str, Any] = json.loads(text)
    return metrics.LatestReport(attempt=attempt, node=node, report=metrics.MetricReport(**fields))


def newer(one: metrics.LatestReport | None, other: metrics.LatestReport) -> metrics.LatestReport:
    """The newer of two reports of a run."""
    if one is None or (one.attempt, one.report.at) <= (other.attempt, other.report.at):
        return other
    return one
