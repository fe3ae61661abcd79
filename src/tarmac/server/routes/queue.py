"""`/queue`: running and waiting runs, and changes of their order. Joined by `server.app`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.responses import Response

from tarmac import api
from tarmac.control.queue.delegated_queue import QueuePage
from tarmac.control.queue.queueing import QueueChange
from tarmac.model.cluster import Pool
from tarmac.model.errors import NotFound
from tarmac.model.text import suggestion
from tarmac.sched import Part
from tarmac.server.http.answers import JsonAnswer
from tarmac.server.http.auth import CallingActor
from tarmac.server.records.queue import pool_records
from tarmac.server.requests import ChangeBody, ChangesBody, Count, Whole
from tarmac.server.service import Service

Limit = Annotated[Count | None, Query(description="so many runs of each pool, the first in order")]


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueParameters:
    """The query of `/queue`."""

    cluster: str | None = None
    pool: str | None = None
    mine: Annotated[bool, Query(description="only the caller's own runs")] = False
    limit: Limit = None
    after: Annotated[Whole, Query(description="only runs after this `number`")] = 0


def queue_routes(router: APIRouter, service: Service) -> None:
    """Add the routes about the queue."""
    plane = service.plane

    @router.get("/queue", response_model=list[api.QueuePool])
    def queue(actor: CallingActor, parameters: Annotated[QueueParameters, Depends()]) -> Response:
        """Return the queue of each pool: its runs that hold slots or wait, in scheduling order."""
        pools = _selected_pools(plane.pools(actor), parameters)
        part = Part(
            limit=parameters.limit,
            after=parameters.after - 1,
            owner=actor.user if parameters.mine else None,
        )
        found = plane.queue(actor, part, cluster=parameters.cluster, pool=parameters.pool)
        return JsonAnswer(pool_records(found, pools))

    @router.post("/queue/changes", response_model=list[api.QueuePool])
    def change(actor: CallingActor, body: ChangesBody, limit: Limit = None) -> Response:
        """Make all of these changes in one transaction, or none; returns the queues of affected pools.

        With `limit`, each queue has its first runs, and all changed ones.
        """
        changed = plane.reorder(actor, [_change(item) for item in body.changes])
        ids = frozenset(run.id for run in changed)
        found = plane.queue(actor, Part(limit=limit, also=ids))
        touched = {_key(page) for page in found if any(entry.id in ids for entry in page.entries)}
        # A run that holds slots is listed with these until it has left them.
        moved = {run.place.pool for run in changed if run.place.pool is not None}
        touched |= {(cluster, pool) for cluster, _ in touched for pool in moved}
        pools = [pool for pool in plane.pools(actor) if pool.key in touched]
        return JsonAnswer(pool_records([page for page in found if _key(page) in touched], pools))


def _key(page: QueuePage) -> tuple[str, str]:
    return page.cluster, page.pool


def _selected_pools(pools: tuple[Pool, ...], parameters: QueueParameters) -> list[Pool]:
    """The requested pools; NotFound for the name of no pool."""
    for what, name, known in (
        ("cluster", parameters.cluster, {pool.cluster for pool in pools}),
        ("pool", parameters.pool, {pool.name for pool in pools}),
    ):
        if name is not None and name not in known:
            hint = suggestion(name, known, f"there are: {', '.join(sorted(known))}")
            raise NotFound(f"there is no {what} {name!r}", hint=hint)
    return [
        pool
        for pool in pools
        if parameters.cluster in (None, pool.cluster) and parameters.pool in (None, pool.name)
    ]


def _change(body: ChangeBody) -> QueueChange:
    return QueueChange(reference=body.run, **body.model_dump(exclude={"run"}))
