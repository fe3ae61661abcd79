"""`/queue`: running and waiting runs, and changes of their order. Joined by `server.app`."""

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from tarmac import api
from tarmac.control.queue.delegated_queue import queue_of_pool
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, suggestion
from tarmac.sched import Part
from tarmac.server.http.routing import Call, Routes
from tarmac.server.service import Service


def add_queue_routes(routes: Routes, service: Service) -> None:
    """Add the routes about the queue."""
    plane = service.plane

    @routes.serve(api.QUEUE)
    def queue(call: Call[api.QueueQuery]) -> list[api.QueuePool]:
        """Return the queue of each pool: its runs that hold slots or wait, in scheduling order.

        Ended runs are left out.
        """
        query = call.query
        pools = _selected_pools(plane.pools(call.actor), query)
        limit = None if query.arrays else query.limit
        part = Part(limit=limit, after=query.after - 1, owner=call.actor.user if query.mine else None)
        found = plane.queue(call.actor, part, cluster=query.cluster, pool=query.pool)
        return _joined([_with_arrays(page, query.limit) for page in found] if query.arrays else found, pools)

    @routes.serve(api.CHANGE_QUEUE)
    def change(call: Call[api.QueueChangeQuery, api.ChangesBody]) -> list[api.QueuePool]:
        """Make all of these changes in one transaction, and return the queues of the affected pools.

        The server checks the changes as if they were made one after another. If one of them is refused, none
        is made, and the error has every reason.
        """
        changed = plane.reorder(call.actor, call.body.changes)
        ids = frozenset(run.id for run in changed)
        found = plane.queue(call.actor, Part(limit=call.query.limit, also=ids))
        touched = {_key(page) for page in found if any(entry.id in ids for entry in page.runs)}
        # A run that holds slots is listed with these until it has left them.
        moved = {run.place.pool for run in changed if run.place.pool is not None}
        touched |= {(cluster, pool) for cluster, _ in touched for pool in moved}
        pools = [pool for pool in plane.pools(call.actor) if pool.key in touched]
        return _joined([page for page in found if _key(page) in touched], pools)


def _key(page: api.QueuePool) -> tuple[str, str]:
    return page.cluster, page.pool


def _with_arrays(page: api.QueuePool, limit: int | None) -> api.QueuePool:
    """The queue with one line for all members of an array."""
    units: dict[str, list[api.QueueEntry]] = {}
    for run in page.runs:
        units.setdefault(run.array_id or run.id, []).append(run)
    shown = islice(units.values(), limit)
    lines = tuple(_array_line(runs) if runs[0].array_id else runs[0] for runs in shown)
    return replace(page, runs=lines, total=len(units))


def _array_line(members: Sequence[api.QueueEntry]) -> api.QueueEntry:
    return replace(
        members[0],
        id=str(members[0].array_id),
        array_index=None,
        slots_acquired=sum(run.slots_acquired for run in members),
        slots_needed=sum(run.slots_needed for run in members),
        members=Counter(run.state.value for run in members),
        estimate=next((run.estimate for run in members if run.estimate is not None), None),
        native=None,
    )


def _joined(pages: Iterable[api.QueuePool], pools: Iterable[Pool]) -> list[api.QueuePool]:
    """One record for each of `pools` and each other pool that has runs, in that order.

    Another pool is of a removed cluster, or of one that has not reported its nodes yet.
    """
    found = {pool.key: queue_of_pool(pool) for pool in pools}
    for page in pages:
        known = found.get(_key(page), page)
        if known is not page:
            found[_key(page)] = replace(known, total=known.total + page.total, runs=known.runs + page.runs)
        elif page.total:
            found[_key(page)] = page
    return list(found.values())


def _selected_pools(pools: tuple[Pool, ...], query: api.QueueQuery) -> list[Pool]:
    """The requested pools; NotFound for the name of no pool."""
    for what, name, known in (
        ("cluster", query.cluster, {pool.cluster for pool in pools}),
        ("pool", query.pool, {pool.name for pool in pools}),
    ):
        if name is not None and name not in known:
            hint = suggestion(name, known, f"there are: {', '.join(sorted(known))}")
            raise NotFound(f"there is no {what} {name!r}", hint=hint)
    return [
        pool for pool in pools if query.cluster in (None, pool.cluster) and query.pool in (None, pool.name)
    ]
