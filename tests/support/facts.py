"""Builders of scheduler facts for tests: short to write, every field that does not matter filled in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tarmac.model.cluster import LOCAL_CLUSTER, Node, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import WorkerPlacement
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation
from tarmac.model.spec import Queueing, Target
from tarmac.sched import Candidate, Demand, Holding, Plan, Snapshot

NOW = 1_000_000.0
BACKFILL_WINDOW_S = Pool(cluster=LOCAL_CLUSTER).backfill_window_s
ANYWHERE = Target()


def node(name: str, slots: int = 8, **changes: Any) -> Node:
    """A local node with so many slots; `cpus`, `memory_bytes` and `slot_type` are its capacity's."""
    capacity = {key: changes.pop(key) for key in ("cpus", "memory_bytes", "slot_type") if key in changes}
    base = Node(
        name=name,
        cluster=LOCAL_CLUSTER,
        address="127.0.0.1",
        hostname=name,
        capacity=Resources(slots=slots, **capacity),
    )
    return replace(base, **changes)


def nodes(count: int, slots: int = 8, **changes: Any) -> tuple[Node, ...]:
    """`count` nodes alike, n1, n2, ..."""
    return tuple(node(f"n{number}", slots, **changes) for number in range(1, count + 1))


def gang(slots: int, *, role: str = "main", uneven: bool = False, **each: Any) -> Demand:
    """A role that asks for so many slots in all."""
    return Demand(role=role, replicas=None, slots=slots, each=Resources(**each), uneven=uneven)


def replicas(count: int, slots: int = 0, *, role: str = "main", **each: Any) -> Demand:
    """A role with so many replicas, each of so many slots."""
    return Demand(role=role, replicas=count, slots=None, each=Resources(slots=slots, **each))


def candidate(run_id: str, *demands: Demand, **changes: Any) -> Candidate:
    """A batch run submitted and queued now that may run anywhere."""
    base = Candidate(
        run_id=run_id,
        seq=2,
        demands=demands,
        target=ANYWHERE,
        mode=Mode.BATCH,
        queueing=Queueing.WAIT,
        priority=0,
        weight=1.0,
        position=None,
        submitted_at=NOW,
        queued_at=NOW,
        owner="ada",
        project="default",
        attempts=0,
        attained_slot_s=0.0,
        time_limit_s=None,
    )
    return replace(base, **changes)


def holding(run_id: str, placements: dict[str, Sequence[int]], **changes: Any) -> Holding:
    """A run that holds these slots of these nodes; changes are of the holding or of its candidate."""
    own = {
        key: changes.pop(key) for key in ("granted_at", "started_at", "leaving", "grace_s") if key in changes
    }
    allocation = Allocation(
        cluster=LOCAL_CLUSTER,
        placements=tuple(
            WorkerPlacement(role="main", replica=number, node=name, slots=tuple(slots))
            for number, (name, slots) in enumerate(placements.items())
        ),
    )
    base = Holding(
        candidate=candidate(run_id, gang(allocation.slots), **changes),
        allocation=allocation,
        granted_at=NOW - 100,
        started_at=NOW - 100,
        checkpoint_at=None,
        leaving=False,
    )
    return replace(base, **own)


def snapshot(
    where: Sequence[Node], queue: Sequence[Candidate] = (), holdings: Sequence[Holding] = (), **more: Any
) -> Snapshot:
    """A snapshot without pools of its own rules."""
    return Snapshot(pools=(), nodes=tuple(where), queue=tuple(queue), holdings=tuple(holdings), **more)


def started(plan: Plan) -> list[str]:
    """Who starts, in the order of the plan."""
    return [placement.run_id for placement in plan.placements]


def layout(plan: Plan, run_id: str) -> list[tuple[str, int]]:
    """Where a run starts: each placement's node and number of slots, in order."""
    (placement,) = [item for item in plan.placements if item.run_id == run_id]
    return [(placement.node, len(placement.slots)) for placement in placement.allocation.placements]
