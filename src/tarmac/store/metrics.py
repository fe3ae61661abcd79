"""`SqlMetrics`: metrics of runs, in chunks of points. Made by `SqlStore`, on its database."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import BindParameter, Connection, bindparam, delete, insert, select

from tarmac.model import metrics
from tarmac.model.actor import Lease
from tarmac.store import metric_series as stored
from tarmac.store import statements as sql
from tarmac.store.database import Database, each_of
from tarmac.store.run_records import keep_record
from tarmac.store.schema import metric_chunk, metric_event, metric_position, metric_series, run

_IDS: BindParameter[Any] = bindparam("ids", expanding=True)
_EXISTING = select(run.c.id).where(run.c.id.in_(_IDS))
_POSITIONS = select(metric_position).where(metric_position.c.run_id.in_(_IDS))
_SERIES = select(metric_series).where(metric_series.c.run_id.in_(_IDS))
_SUMMARIES = (
    select(
        metric_series.c.run_id,
        metric_series.c.grp,
        metric_series.c.name,
        metric_series.c.rank,
        metric_series.c.totals,
    )
    .where(metric_series.c.run_id.in_(_IDS))
    .order_by(metric_series.c.run_id, metric_series.c.grp, metric_series.c.name, metric_series.c.rank)
)
_NAMES: BindParameter[Any] = bindparam("names", expanding=True)
_TAILS = _SERIES.where(metric_series.c.name.in_(_NAMES))
_CHUNKS = (
    select(metric_chunk)
    .where(metric_chunk.c.run_id.in_(_IDS), metric_chunk.c.name.in_(_NAMES))
    .order_by(metric_chunk.c.number)
)
_EVENTS = (
    select(metric_event)
    .where(metric_event.c.subscriber == bindparam("of"), metric_event.c.id > bindparam("after_id"))
    .order_by(metric_event.c.id)
    .limit(bindparam("at_most"))
)
_FORGET = delete(metric_event).where(
    metric_event.c.subscriber == bindparam("of"), metric_event.c.id <= bindparam("until_id")
)


class SqlMetrics:
    """Implements `model.metrics.MetricStore` in SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._put_series = sql.put(metric_series, database.dialect)
        self._put_position = sql.put_position(database.dialect)

    def positions(self, run_ids: Collection[str]) -> dict[metrics.Position, int]:
        with self._database.reading() as connection:
            return _positions(connection, run_ids)

    def take(self, batches: Sequence[metrics.ReportBatch], *, lease: Lease | None = None) -> list[bool]:
        if not batches:
            return []
        run_ids = sorted({batch.run_id for batch in batches})
        with self._database.adding(lease) as connection:
            existing = {row[0] for row in each_of(connection, _EXISTING, run_ids)}
            positions = _positions(connection, run_ids)
            taken = []
            for batch in batches:
                place = (batch.run_id, batch.attempt, batch.node)
                fits = batch.run_id in existing and positions.get(place, 0) == batch.begin
                if fits:
                    positions[place] = batch.end
                taken.append(fits)
            self._keep(connection, [batch for batch, fits in zip(batches, taken, strict=True) if fits])
        return taken

    def latest(self, run_ids: Collection[str]) -> dict[str, metrics.LatestReport]:
        found: dict[str, metrics.LatestReport] = {}
        for run_id, attempt, node, _, latest in self._database.rows_of(_POSITIONS, run_ids):
            if latest is not None:
                report = stored.latest_from_json(latest, attempt=attempt, node=node)
                found[run_id] = stored.newer(found.get(run_id), report)
        return found

    def summaries(self, run_ids: Collection[str]) -> list[metrics.MetricSummary]:
        found = self._database.rows_of(_SUMMARIES, sorted(run_ids))
        return [stored.totals_from_json(row.totals).summary(_key(row)) for row in found]

    def points(self, keys: Sequence[metrics.SeriesKey]) -> dict[metrics.SeriesKey, metrics.Points]:
        chunks: dict[metrics.SeriesKey, list[stored.Chunk]] = {key: [] for key in keys}
        run_ids, names = sorted({key.run_id for key in keys}), sorted({key.name for key in keys})
        # Tails first: a chunk that closes between the two queries is then known as the earlier tail.
        tails = self._database.rows_of(_TAILS, run_ids, names=names)
        closed = self._database.rows_of(_CHUNKS, run_ids, names=names)
        ends = {_key(row): row.closed for row in tails}
        for row in closed:
            key = _key(row)
            if key in chunks and row.number < ends.get(key, 0):
                chunks[key].append(_chunk(row))
        for row in tails:
            key = _key(row)
            if key in chunks:
                chunks[key].append(stored.Chunk(row.closed, row.attempt, metrics.points_of(row.body)))
        return {key: stored.points_that_count(found) for key, found in chunks.items() if found}

    def events(self, subscriber: str, *, after_id: int, limit: int = 1000) -> list[metrics.MetricEvent]:
        values = {"of": subscriber, "after_id": after_id, "at_most": limit}
        return [_event(row) for row in self._database.rows(_EVENTS, values)]

    def forget_events(self, subscriber: str, *, until_id: int) -> None:
        self._database.write(_FORGET, {"of": subscriber, "until_id": until_id})

    def _keep(self, connection: Connection, batches: Sequence[metrics.ReportBatch]) -> None:
        """Write the reports of batches, their ends, their events and their records."""
        known: dict[metrics.SeriesKey, stored.Series] = {}
        counts: dict[str, int] = {}
        for row in each_of(connection, _SERIES, sorted({batch.run_id for batch in batches if batch.reports})):
            totals, tail = stored.totals_from_json(row.totals), metrics.points_of(row.body)
            known[_key(row)] = stored.Series(row.attempt, row.closed, totals, tail)
            counts[row.run_id] = counts.get(row.run_id, 0) + 1
        changed: set[metrics.SeriesKey] = set()
        for batch in batches:
            changed |= stored.add_batch(known, counts, batch)
        _count_anew(connection, {key: known[key] for key in changed if known[key].rewound})
        if chunks := [_of_chunk(key, chunk) for key in sorted(changed) for chunk in known[key].fresh]:
            connection.execute(insert(metric_chunk), chunks)
        if changed:
            rows = [_of_series(key, known[key]) for key in sorted(changed)]
            connection.execute(self._put_series, rows)
        if batches:
            connection.execute(self._put_position, [_of_position(batch) for batch in batches])
        if events := [_of_event(event) for batch in batches for event in batch.events]:
            connection.execute(insert(metric_event), events)
        for record in (record for batch in batches for record in batch.records):
            keep_record(connection, record)


def _count_anew(connection: Connection, rewound: dict[metrics.SeriesKey, stored.Series]) -> None:
    """Count the totals of series whose newest attempt repeats steps of an earlier one."""
    if not rewound:
        return
    run_ids, names = sorted({key.run_id for key in rewound}), sorted({key.name for key in rewound})
    closed: dict[metrics.SeriesKey, list[stored.Chunk]] = {key: [] for key in rewound}
    for row in each_of(connection, _CHUNKS, run_ids, names=names):
        key = _key(row)
        if key in closed:
            closed[key].append(_chunk(row))
    for key, series in rewound.items():
        series.count_anew(closed[key])


def _positions(connection: Connection, run_ids: Collection[str]) -> dict[metrics.Position, int]:
    rows = each_of(connection, _POSITIONS, run_ids)
    return {(run_id, attempt, node): read_to for run_id, attempt, node, read_to, _ in rows}


def _key(row: Any) -> metrics.SeriesKey:
    return metrics.SeriesKey(run_id=row.run_id, group=row.grp, name=row.name, rank=row.rank)


def _chunk(row: Any) -> stored.Chunk:
    return stored.Chunk(row.number, row.attempt, metrics.points_of(row.body))


def _of_key(key: metrics.SeriesKey) -> dict[str, Any]:
    return {"run_id": key.run_id, "grp": key.group, "name": key.name, "rank": key.rank}


def _of_chunk(key: metrics.SeriesKey, chunk: stored.Chunk) -> dict[str, Any]:
    body = chunk.points.to_bytes()
    return {**_of_key(key), "number": chunk.number, "attempt": chunk.attempt, "body": body}


def _of_series(key: metrics.SeriesKey, series: stored.Series) -> dict[str, Any]:
    return {
        **_of_key(key),
        "attempt": series.attempt,
        "closed": series.closed,
        "totals": series.totals.to_json(),
        "body": series.tail.to_bytes(),
    }


def _of_position(batch: metrics.ReportBatch) -> dict[str, Any]:
    return {
        "run_id": batch.run_id,
        "attempt": batch.attempt,
        "node": batch.node,
        "read_to": batch.end,
        "latest": stored.latest_to_json(batch),
    }


_EVENT_COLUMNS = ("subscriber", "run_id", "attempt", "at", "step")


def _of_event(event: metrics.MetricEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in _EVENT_COLUMNS} | {"body": json.dumps(dict(event.body))}


def _event(row: Any) -> metrics.MetricEvent:
    return metrics.MetricEvent(**{**row._mapping, "body": json.loads(row.body)})
