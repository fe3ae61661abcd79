"""Attempts as usage: only the columns that count, so that many are read quickly. Used by `sql`."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    allocation = json.loads(body)
    begin = granted_at if allocation.get("delegated") else created_at
    if begin is None:
        return None
    placements = allocation["placements"]
    slots_of: dict[tuple[str, int], int] = {}
    for each in placements:
        replica = each["role"], each["replica"]
        slots_of[replica] = slots_of.get(replica, 0) + len(each.get("slots", ()))
    return AttemptSpan(
        run_id=run_id,
        attempt=number,
        user=user,
        project=project,
        cluster=cluster,
        pool=allocation.get("pool", DEFAULT_POOL),
        begin=begin,
        end=ended_at,
        slots=sum(slots_of.values()),
        released=tuple(
            (each["at"], slots_of[each["role"], each["replica"]])
            for each in (json.loads(released) if released is not None else ())
        ),
    )
