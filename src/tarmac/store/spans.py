"""Attempts as usage, of existing and of removed runs. Used by `sql`.

It reads only the needed columns of attempts, so that many are read quickly.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from threading import Lock
from typing import Any

from sqlalchemy import Connection, bindparam, func, or_, select

from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.codec import decode
from tarmac.model.lifecycle import TERMINAL_STATES
from tarmac.model.people.usage import AttemptSpan
from tarmac.store.database import each_of
from tarmac.store.rows import written
from tarmac.store.schema import attempt, event, run, usage_span
from tarmac.store.statements import LAST_EVENT_ID, insert_or_skip, words

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
SINCE = _ATTEMPTS.where(or_(attempt.c.ended_at.is_(None), attempt.c.ended_at > bindparam("since")))
OF_RUNS = _ATTEMPTS.where(run.c.id.in_(bindparam("ids", expanding=True)))
TO_REMOVE = OF_RUNS.where(run.c.state.in_(words(TERMINAL_STATES)))
CHANGED = select(event.c.run_id).where(event.c.id > bindparam("after")).distinct()
_MOST_KNOWN = 500_000
"""The number of spans from which on they are read for every answer."""

COUNT_REMOVED = select(func.count()).select_from(usage_span)
REMOVED = select(usage_span.c.body).where(usage_span.c.ended_at > bindparam("since"))


class Spans:
    """The attempts of a database that held slots. They are read once, and then those of changed runs."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], AttemptSpan] = {}
        self._since, self._last_event, self._removed = inf, 0, 0
        self._lock = Lock()

    def read(self, connection: Connection, since: float, until: float) -> list[AttemptSpan]:
        """Those in a range of time; each once, even if its run is removed meanwhile."""
        with self._lock:
            self._renew(connection, since)
            spans = self._known.values()
            return [each for each in spans if each.begin < until and (each.end or inf) > since]

    def _renew(self, connection: Connection, since: float) -> None:
        last_event = connection.execute(LAST_EVENT_ID).scalar_one()
        removed = connection.execute(COUNT_REMOVED).scalar_one()
        found: Iterable[Any]
        if since >= self._since and removed == self._removed and len(self._known) < _MOST_KNOWN:
            changed = connection.execute(CHANGED, {"after": self._last_event}).scalars().all()
            found = each_of(connection, OF_RUNS, changed)
        else:  # the events of removed runs are gone
            found, self._known = connection.execute(SINCE, {"since": since}), {}
            for body in connection.execute(REMOVED, {"since": since}).scalars():
                self._put(decode(AttemptSpan, json.loads(body)))
            self._since, self._removed = since, removed
        for span in map(_to_span, found):
            if span is not None:
                self._put(span)
        self._last_event = last_event

    def _put(self, span: AttemptSpan) -> None:
        self._known[span.run_id, span.attempt] = span


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
