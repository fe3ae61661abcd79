"""`/queue`: what holds slots and what waits for them, and changes of its order. Joined by `server.app`."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from tarmac.control.queueing import QueueChange, QueueEntry
from tarmac.model.cluster import Pool
from tarmac.model.errors import NotFound
from tarmac.server.answers import JsonAnswer
from tarmac.server.queue_records import pool_records
from tarmac.server.rim import caller_of
from tarmac.server.schemas.queue import ChangeBody, ChangesBody, QueuePool
from tarmac.server.service import Service


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueParameters:
    """The query of `/queue`."""

    cluster: str | None = None
    pool: str | None = None
    mine: Annotated[bool, Query(description="only the caller's own runs")] = False


def queue_routes(service: Service) -> APIRouter:
    """The routes about the queue."""
    router = APIRouter(tags=["queue"])
    plane = service.plane

    @router.get("/queue", response_model=list[QueuePool])
    def queue(request: Request, parameters: Annotated[QueueParameters, Depends()]) -> Response:
        """The queue of each pool: what holds slots and what waits, in scheduling order."""
        pools = _wanted(plane.pools(), parameters)
        entries = plane.queue(cluster=parameters.cluster, pool=parameters.pool)
        if parameters.mine:
            user = caller_of(request).user
            entries = [entry for entry in entries if entry.user == user]
        return JsonAnswer(pool_records(entries, pools))

    @router.post("/queue/changes", response_model=list[QueuePool])
    def change(body: ChangesBody) -> Response:
        """Make all of these changes in one transaction, or none; the queues of the pools they touched."""
        changed = plane.reorder([_change(item) for item in body.changes])
        ids = {run.id for run in changed}
        entries = plane.queue()
        touched = {_key(entry) for entry in entries if entry.run_id in ids}
        moved = {run.place.pool for run in changed} - {
            None
        }  # one that holds slots is listed there, until it left
        touched |= {(cluster, pool) for cluster, _ in touched for pool in moved if pool is not None}
        pools = [pool for pool in plane.pools() if pool.key in touched]
        return JsonAnswer(pool_records([entry for entry in entries if _key(entry) in touched], pools))

    return router


def _key(entry: QueueEntry) -> tuple[str, str]:
    return entry.cluster, entry.pool


def _wanted(pools: tuple[Pool, ...], parameters: QueueParameters) -> list[Pool]:
    """The pools that are asked for; NotFound for a name that none has."""
    for what, name, known in (
        ("cluster", parameters.cluster, {pool.cluster for pool in pools}),
        ("pool", parameters.pool, {pool.name for pool in pools}),
    ):
        if name is not None and name not in known:
            near = get_close_matches(name, known, n=1)
            listed = f"did you mean {near[0]}?" if near else f"there are: {', '.join(sorted(known))}"
            raise NotFound(f"there is no {what} {name!r}", hint=listed)
    return [
        pool
        for pool in pools
        if parameters.cluster in (None, pool.cluster) and parameters.pool in (None, pool.name)
    ]


def _change(body: ChangeBody) -> QueueChange:
    return QueueChange(
        reference=body.run,
        priority=body.priority,
        weight=body.weight,
        pool=body.pool,
        ahead_of=body.ahead_of,
        behind_of=body.behind_of,
        top=body.top,
    )
