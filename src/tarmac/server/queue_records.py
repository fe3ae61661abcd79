"""The queue as JSON: the lines of each pool together, with the rules that say how to read them.

Called by the queue's routes. `schemas.queue` describes the same shapes to OpenAPI.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tarmac.control.queueing import QueueEntry
from tarmac.model.cluster import Pool
from tarmac.sched import Estimate

Json = dict[str, Any]


def pool_records(entries: Iterable[QueueEntry], pools: Iterable[Pool]) -> list[Json]:
    """A `QueuePool` for each of `pools` and each pool that has lines, in that order."""
    rules = {pool.key: pool for pool in pools}
    found = {key: _pool_record(pool) for key, pool in rules.items()}
    for entry in entries:
        key = (entry.cluster, entry.pool)
        if key not in found:  # its cluster is gone, or has not reported its nodes yet
            found[key] = _pool_record(Pool(cluster=entry.cluster, name=entry.pool, policy=entry.policy))
        found[key]["runs"].append(_entry_record(entry))
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
        "estimate": estimate_record(entry.estimate),
    }
