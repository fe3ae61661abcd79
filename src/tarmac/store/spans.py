"""Attempts as usage, of existing and of removed runs: each for itself, and added up by day. Used by `sql`.

It reads only the needed columns of attempts, so that many are read quickly.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, literal_column, select

from tarmac.model.changes import RunStep
from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.codec import decode
from tarmac.model.lifecycle import OCCUPYING_STATES, TERMINAL_STATES
from tarmac.model.people.usage import AttemptSpan, Period, TimeRange, UsedSlots, periods
from tarmac.store.account_schema import usage_day, usage_span
from tarmac.store.database import each_of
from tarmac.store.rows import allocation_text, written
from tarmac.store.schema import attempt, run
from tarmac.store.statements import add_to, insert_or_skip, words

_OF_ATTEMPT = ("cluster", "allocation", "created_at", "granted_at", "ended_at", "released")
_ATTEMPTS = select(
    run.c.id, attempt.c.number, run.c.user_name, run.c.project, *(attempt.c[name] for name in _OF_ATTEMPT)
).join_from(attempt, run, attempt.c.run_id == run.c.id)
LIVE = _ATTEMPTS.where(attempt.c.state != literal_column("'ended'"))
ENDED = _ATTEMPTS.where(attempt.c.ended_at > bindparam("since"), attempt.c.created_at < bindparam("until"))
TO_REMOVE = _ATTEMPTS.where(
    run.c.id.in_(bindparam("ids", expanding=True)), run.c.state.in_(words(TERMINAL_STATES))
)
REMOVED = select(usage_span.c.body).where(usage_span.c.ended_at > bindparam("since"))

_KEYS = tuple(usage_day.c[name] for name in ("user_name", "project", "cluster", "pool"))
_AMOUNTS = tuple(usage_day.c[name] for name in ("runs", "attempts", "slot_s"))
BY_DAY = select(*_KEYS, *_AMOUNTS, usage_day.c.day_at).where(
    usage_day.c.day_at >= bindparam("since"), usage_day.c.day_at < bindparam("until")
)
_IN_TOTAL = BY_DAY.with_only_columns(*_KEYS, *map(func.sum, _AMOUNTS)).group_by(*_KEYS)


def sums(connection: Connection, days: TimeRange, *, by_day: bool) -> list[UsedSlots]:
    """The usage of ended attempts in a range of whole days, in total or by day."""
    since, until = days
    found = connection.execute(BY_DAY if by_day else _IN_TOTAL, {"since": since, "until": until})
    fields = UsedSlots.__struct_fields__
    return [UsedSlots(**dict(zip(fields, row, strict=False))) for row in found]


def within(connection: Connection, ranges: Iterable[TimeRange]) -> list[AttemptSpan]:
    """All live attempts, and those that held slots within one of these ranges of time."""
    found = list(map(_to_span, connection.execute(LIVE)))
    for since, until in ranges:
        found += map(_to_span, connection.execute(ENDED, {"since": since, "until": until}))
        bodies = connection.execute(REMOVED, {"since": since}).scalars()
        removed = (decode(AttemptSpan, json.loads(body)) for body in bodies)
        found += (span for span in removed if span.begin < until)
    return list({(span.run_id, span.attempt): span for span in found if span is not None}.values())


def add(connection: Connection, steps: Iterable[RunStep]) -> None:
    """Add the attempts that end with these steps to the sums of their days, in the same transaction."""
    added: dict[tuple[Any, ...], list[float]] = {}
    for span in _ending(steps):
        for day_at, after in periods(Period.DAY, span.begin, span.end or span.begin):
            key = span.user, span.project, span.cluster, span.pool, day_at
            before = added.get(key, (0, 0, 0.0))
            added[key] = [sum(each) for each in zip(before, span.counted(day_at, after), strict=True)]
    if added:
        names = [column.name for column in (*_KEYS, usage_day.c.day_at, *_AMOUNTS)]
        rows = [dict(zip(names, (*key, *amounts), strict=True)) for key, amounts in sorted(added.items())]
        add_to(usage_day, connection.dialect.name).execute(connection, rows)


def _ending(steps: Iterable[RunStep]) -> Iterator[AttemptSpan]:
    """The attempts that end with these steps, each once: later steps may learn more of an ended one."""
    for step in steps:
        ended, before = step.attempt, step.before
        if ended is None or ended.ended_at is None:
            continue
        if before.attempt < ended.number or before.state in OCCUPYING_STATES:
            key = before.id, ended.number, before.user, before.project, ended.allocation.cluster
            times = ended.created_at, ended.granted_at, ended.ended_at
            released = written(ended.released) if ended.released else None
            span = _to_span((*key, allocation_text(ended.allocation), *times, released))
            if span is not None:
                yield span


def keep(connection: Connection, run_ids: Iterable[str]) -> None:
    """Keep the usage of ended ones of these runs, which the same transaction removes."""
    spans = map(_to_span, each_of(connection, TO_REMOVE, run_ids))
    kept = [
        {"run_id": span.run_id, "attempt": span.attempt, "ended_at": span.end, "body": written(span)}
        for span in spans
        if span is not None and span.end is not None
    ]
    if kept:
        connection.execute(insert_or_skip(usage_span, connection.dialect.name), kept)


def _to_span(row: Sequence[Any]) -> AttemptSpan | None:
    """The usage of a row of `_ATTEMPTS`; None while a cluster's own queue has granted nothing."""
    run_id, number, user, project, cluster, body, created_at, granted_at, ended_at, released = row
    granted = _granted(body)
    begin = granted_at if granted.delegated else created_at
    if begin is None:
        return None
    return AttemptSpan(
        run_id=run_id,
        attempt=number,
        user=user,
        project=project,
        cluster=cluster,
        pool=granted.pool,
        begin=begin,
        end=ended_at,
        slots=granted.slots,
        released=tuple(
            (each["at"], granted.slots_of.get((each["role"], each["replica"]), 0))
            for each in (json.loads(released) if released is not None else ())
        ),
    )


@dataclass(frozen=True, slots=True)
class _Granted:
    """The needed part of an allocation."""

    delegated: bool
    pool: str
    slots_of: Mapping[tuple[str, int], int]
    slots: int


@lru_cache(maxsize=4096)
def _granted(body: str) -> _Granted:
    """Read an allocation, cached because most small runs get the same allocations."""
    allocation = json.loads(body)
    slots_of: dict[tuple[str, int], int] = {}
    for each in allocation["placements"]:
        replica = each["role"], each["replica"]
        slots_of[replica] = slots_of.get(replica, 0) + len(each.get("slots", ()))
    return _Granted(
        delegated=bool(allocation.get("delegated")),
        pool=allocation.get("pool", DEFAULT_POOL),
        slots_of=slots_of,
        slots=sum(slots_of.values()),
    )
