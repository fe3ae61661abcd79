"""`MemoryMetrics`: metrics of runs as a fake that passes the same suite. Made by `MemoryStore`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager

from tarmac.model.actor import Lease
from tarmac.model.codec import replace
from tarmac.model.errors import StorageFull
from tarmac.model.metrics import (
    LatestReport,
    MetricEvent,
    MetricSummary,
    Points,
    Position,
    ReportBatch,
    SeriesKey,
)
from tarmac.model.run import Run
from tarmac.model.run_records import RunRecord
from tarmac.store.metric_series import Series, add_batch, newer, points_that_count


class MemoryMetrics:
    """Implements `model.metrics.MetricStore` on the runs of a `MemoryStore`; `write` wraps each write."""

    def __init__(
        self,
        runs: dict[str, Run],
        write: AbstractContextManager[None],
        fence: Callable[[Lease | None], None],
        keep: Callable[[RunRecord], None],
    ) -> None:
        self._keep_record = keep
        self._runs = runs
        self._write = write
        self._fence = fence
        self._series: dict[SeriesKey, Series] = {}
        self._positions: dict[Position, int] = {}
        self._latest: dict[str, LatestReport] = {}
        self._events: list[MetricEvent] = []
        self._last_id = 0
        self.disk_full = False

    def positions(self, run_ids: Collection[str]) -> dict[Position, int]:
        return {place: end for place, end in list(self._positions.items()) if place[0] in run_ids}

    def take(self, batches: Sequence[ReportBatch], *, lease: Lease | None = None) -> list[bool]:
        if not batches:
            return []
        if self.disk_full:
            raise StorageFull("the disk of the metrics in memory is full: nothing was changed")
        with self._write:
            self._fence(lease)
            return [self._take(batch) for batch in batches]

    def latest(self, run_ids: Collection[str]) -> dict[str, LatestReport]:
        return {run_id: self._latest[run_id] for run_id in run_ids if run_id in self._latest}

    def summaries(self, run_ids: Collection[str]) -> list[MetricSummary]:
        found = [series.totals.summary(key) for key, series in self._series.items() if key.run_id in run_ids]
        return sorted(found, key=lambda each: (each.key.run_id, each.key.group, each.key.name, each.key.rank))

    def points(self, keys: Sequence[SeriesKey]) -> dict[SeriesKey, Points]:
        known = {key: self._series[key] for key in keys if key in self._series}
        return {key: points_that_count([*series.fresh, series.last_chunk]) for key, series in known.items()}

    def events(self, subscriber: str, *, after_id: int, limit: int = 1000) -> list[MetricEvent]:
        found = [each for each in self._events if each.subscriber == subscriber and each.id > after_id]
        return found[:limit]

    def forget_events(self, subscriber: str, *, until_id: int) -> None:
        with self._write:
            self._events = [
                each for each in self._events if each.subscriber != subscriber or each.id > until_id
            ]

    def forget(self, run_id: str) -> None:
        """Remove the metrics of a run; the caller holds the lock of the store."""
        for key in [key for key in self._series if key.run_id == run_id]:
            del self._series[key]
        for place in [place for place in self._positions if place[0] == run_id]:
            del self._positions[place]
        self._latest.pop(run_id, None)
        self._events = [each for each in self._events if each.run_id != run_id]

    def _take(self, batch: ReportBatch) -> bool:
        place = (batch.run_id, batch.attempt, batch.node)
        if batch.run_id not in self._runs or self._positions.get(place, 0) != batch.begin:
            return False
        counts = {batch.run_id: sum(key.run_id == batch.run_id for key in self._series)}
        for key in add_batch(self._series, counts, batch):
            if self._series[key].rewound:
                self._series[key].count_anew(())
        self._positions[place] = batch.end
        for record in batch.records:
            self._keep_record(record)
        if batch.reports:
            latest = LatestReport(attempt=batch.attempt, node=batch.node, report=batch.reports[-1])
            self._latest[batch.run_id] = newer(self._latest.get(batch.run_id), latest)
        for event in batch.events:
            self._last_id += 1
            self._events.append(replace(event, id=self._last_id))
        return True
