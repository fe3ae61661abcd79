"""The queue as JSON: the lines of each pool together, with the rules that say how to read them.

Called by the queue's routes. `schemas.queue` describes the same shapes to OpenAPI.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tarmac.control.queue.queue_entries import QueueEntry, QueuePage
from tarmac.model.cluster import Policy, Pool
from tarmac.sched import Estimate
from tarmac.server.records.runs import native_record

Json = dict[str, Any]


def pool_records(pages: Iterable[QueuePage], pools: Iterable[Pool]) -> list[Json]:
    """A `QueuePool` for each of `pools` and each other pool that has runs, in that order."""
    found = {pool.key: _pool_record(pool) for pool in pools}
    for page in pages:
        key = (page.cluster, page.pool)
        if key not in found and not page.total:
            continue
        if key not in found:  # its cluster is gone, or has not reported its nodes yet
            policy = page.entries[0].policy if page.entries else Policy.PRIORITY
            found[key] = _pool_record(Pool(cluster=page.cluster, name=page.pool, policy=policy))
        found[key]["total"] += page.total
        found[key]["runs"] += map(_entry_record, page.entries)
    return list(found.values())


def estimate_record(estimate: Estimate | None) -> Json | None:
    """An `Estimate`."""
    if estimate is None:
        return None
    return {"start_at": estimate.start_at, "latest_at": estimate.latest_at, "basis": estimate.basis}


def _pool_record(pool: Pool) -> Json:
    return {
        "cluster": pool.cluster,
        "pool": pool.name,
        "policy": pool.policy,
        "preemption": pool.preemption,
        "total": 0,
        "runs": [],
    }


def _entry_record(entry: QueueEntry) -> Json:
    return {
        "number": entry.number,
        "id": entry.run_id,
        "name": entry.name,
        "mode": entry.mode,
        "priority": entry.priority,
        "weight": entry.weight,
        "submitted_at": entry.submitted_at,
        "slots_acquired": entry.slots_acquired,
        "slots_needed": entry.slots_needed,
        "state": entry.state,
        "user": entry.user,
        "project": entry.project,
        "retry_at": entry.retry_at,
        "estimate": estimate_record(entry.estimate),
        "native": native_record(entry.native),
    }
