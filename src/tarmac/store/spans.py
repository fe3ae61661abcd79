"""Attempts as usage: only the columns that count, so that many are read quickly. Used by `sql`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam, func, or_, select

from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.usage import AttemptSpan
from tarmac.store.schema import attempt, run

SPANS = (
    select(
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
    )
    .join_from(attempt, run, attempt.c.run_id == run.c.id)
    .where(func.coalesce(attempt.c.granted_at, attempt.c.created_at) < bindparam("until"))
    .where(or_(attempt.c.ended_at.is_(None), attempt.c.ended_at > bindparam("since")))
)


def to_span(row: Sequence[Any]) -> AttemptSpan | None:
    """A row of `SPANS`; None where a cluster's own queue has granted nothing yet."""
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
    """What counts of an allocation."""

    delegated: bool
    pool: str
    slots_of: Mapping[tuple[str, int], int]
    slots: int


@lru_cache(maxsize=4096)
def _granted(body: str) -> _Granted:
    """Read an allocation once: most attempts of a small run were given what another had before."""
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
