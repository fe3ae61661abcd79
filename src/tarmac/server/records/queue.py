"""Joins pages of the queue into one record for each pool. Called by the queue's routes."""

from collections.abc import Iterable

from tarmac import api
from tarmac.control.queue.delegated_queue import QueuePage
from tarmac.model.cluster import Pool


def pool_records(pages: Iterable[QueuePage], pools: Iterable[Pool]) -> list[api.QueuePool]:
    """The records of `pools` and of each other pool that has runs, in that order."""
    known = {pool.key: pool for pool in pools}
    totals: dict[tuple[str, str], int] = {}
    runs: dict[tuple[str, str], list[api.QueueEntry]] = {}
    for page in pages:
        key = (page.cluster, page.pool)
        if key not in known and not page.total:
            continue
        if key not in known:  # its cluster was removed, or has not reported its nodes yet
            known[key] = Pool(cluster=page.cluster, name=page.pool, policy=page.policy)
        totals[key] = totals.get(key, 0) + page.total
        runs.setdefault(key, []).extend(page.entries)
    return [
        api.QueuePool(
            cluster=pool.cluster,
            pool=pool.name,
            policy=pool.policy,
            preemption=pool.preemption,
            total=totals.get(key, 0),
            runs=tuple(runs.get(key, ())),
        )
        for key, pool in known.items()
    ]
