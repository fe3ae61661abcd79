"""`/queue`: running and waiting runs, and changes of their order. Joined by `server.app`."""

from collections.abc import Iterable

from tarmac import api
from tarmac.control.queue.lines import page_of
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, suggestion
from tarmac.sched import Part
from tarmac.server.http.routing import Call, Handlers, serve


class QueueHandlers(Handlers):
    """The routes about the queue."""

    @serve(api.QUEUE)
    def queue(self, call: Call[api.QueueQuery]) -> list[api.QueuePool]:
        """Return the queue of each pool: its runs that hold slots or wait, in scheduling order.

        Ended runs are left out.
        """
        query = call.query
        pools = _selected_pools(self.plane.pools(call.actor), query)
        owner = call.actor.user if query.mine else None
        part = Part(limit=query.limit, after=query.after - 1, owner=owner)
        chosen = {"cluster": query.cluster, "pool": query.pool}
        return _joined(self.plane.queue(call.actor, part, **chosen, by_array=query.arrays), pools)

    @serve(api.CHANGE_QUEUE)
    def change(self, call: Call[api.QueueChangeQuery, api.ChangesBody]) -> list[api.QueuePool]:
        """Make all of these changes in one transaction, and return the queues of the affected pools.

        The server checks the changes as if they were made one after another. If one of them is refused, none
        is made, and the error has every reason.
        """
        changed = self.plane.reorder(call.actor, call.body.changes)
        ids = frozenset(run.id for run in changed)
        found = self.plane.queue(call.actor, Part(limit=call.query.limit, also=ids))
        touched = {_key(page) for page in found if any(entry.id in ids for entry in page.runs)}
        # A run that holds slots is listed with these until it has left them.
        moved = {run.place.pool for run in changed if run.place.pool is not None}
        touched |= {(cluster, pool) for cluster, _ in touched for pool in moved}
        pools = [pool for pool in self.plane.pools(call.actor) if pool.key in touched]
        return _joined([page for page in found if _key(page) in touched], pools)


def _key(page: api.QueuePool) -> tuple[str, str]:
    return page.cluster, page.pool


def _joined(pages: Iterable[api.QueuePool], pools: Iterable[Pool]) -> list[api.QueuePool]:
    """One record for each of `pools` and each other pool that has runs, in that order.

    Another pool is of a removed cluster, or of one that has not reported its nodes yet.
    """
    found = {pool.key: page_of(pool, 0, ()) for pool in pools}
    for page in pages:
        known = found.get(_key(page), page)
        if known is not page:
            following = max(filter(None, (known.next, page.next)), default=None)
            total, runs = known.total + page.total, known.runs + page.runs
            found[_key(page)] = replace(known, total=total, runs=runs, next=following)
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
