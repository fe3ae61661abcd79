"""Attempts as usage, of existing and of removed runs. Used by `sql`.

It reads only the needed columns of attempts, so that many are read quickly.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, bindparam, func, or_, select

from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.codec import decode
from tarmac.model.lifecycle import TERMINAL_STATES
from tarmac.model.people.usage import AttemptSpan
from tarmac.store.database import each_of
from tarmac.store.rows import written
from tarmac.store.schema import attempt, run, usage_span
from tarmac.store.statements import insert_or_skip, words

_ATTEMPTS = select(
    run.c.id,
    attempt.c.number,
    run.c.user_name,
    run.c.project,
    attempt.c.cluster,
    attempt.c.allocation,
    attempt.c.created_at,
    attempt.c.granted_at,
    attempt.c.ended_at,
    attempt.c.released,
).join_from(attempt, run, attempt.c.run_id == run.c.id)
IN_RANGE = _ATTEMPTS.where(
    func.coalesce(attempt.c.granted_at, attempt.c.created_at) < bindparam("until")
).where(or_(attempt.c.ended_at.is_(None), attempt.c.ended_at > bindparam("since")))
TO_REMOVE = _ATTEMPTS.where(
    run.c.id.in_(bindparam("ids", expanding=True)), run.c.state.in_(words(TERMINAL_STATES))
)
REMOVED = select(usage_span.c.body).where(usage_span.c.ended_at > bindparam("since"))


def read_spans(connection: Connection, since: float, until: float) -> list[AttemptSpan]:
    """The attempts that held slots in a range of time; each once, even if its run is removed meanwhile."""
    kept = map(_to_span, connection.execute(IN_RANGE, {"since": since, "until": until}))
    spans = {(span.run_id, span.attempt): span for span in kept if span is not None}
    for body in connection.execute(REMOVED, {"since": since}).scalars():
        span = decode(AttemptSpan, json.loads(body))
        if span.begin < until:
            spans[span.run_id, span.attempt] = span
    return list(spans.values())


def keep_spans(connection: Connection, run_ids: Iterable[str]) -> None:
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
            (each["at"], granted.slots_of[each["role"], each["replica"]])
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
