"""What one pass of the scheduler costs: milliseconds per pass at several sizes, best of some repetitions.

Run with `python benchmarks/sched_plan.py [--check]`. Needs nothing but tarmac.
With `--check` it ends with 1 if a figure lies outside its range.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from tarmac.model.cluster import LOCAL_CLUSTER, Node
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation, Seat
from tarmac.model.spec import Mode, Queueing, Target
from tarmac.sched import Candidate, Demand, Holding, Snapshot, explain, plan

NOW = 1_000_000.0
SLOTS = 8
REPEATS = 5


def main() -> int:
    """Print the table."""
    slow = False
    print(f"{'pass':<68}{'ms':>9}{'budget':>9}")
    for row in ROWS:
        elapsed_ms = min(timed_ms(row.work, row.snapshot()) for _ in range(REPEATS))
        slow = slow or elapsed_ms > row.budget_ms
        print(f"{row.name:<68}{elapsed_ms:>9.1f}{row.budget_ms:>9.0f}")
    return 1 if slow and "--check" in sys.argv else 0


@dataclass(frozen=True)
class Row:
    """One line of the table. The snapshot is made anew each time, so that nothing is warm by accident."""

    name: str
    snapshot: Callable[[], Snapshot]
    work: Callable[[Snapshot], object]
    budget_ms: float


def timed_ms(work: Callable[[Snapshot], object], snapshot: Snapshot) -> float:
    """How long the work takes on this snapshot."""
    began = time.perf_counter()
    work(snapshot)
    return (time.perf_counter() - began) * 1000


def passing(snapshot: Snapshot) -> object:
    """One pass."""
    return plan(snapshot, NOW)


def explaining_the_last(snapshot: Snapshot) -> object:
    """`tarmac why` for the run at the end of the queue."""
    return explain(snapshot, snapshot.queue[-1].run_id, NOW)


def cluster(
    *,
    nodes: int,
    queued: int,
    sizes: tuple[int, ...],
    full: bool,
    waited_s: float = 0.0,
    shared: bool = True,
) -> Snapshot:
    """Nodes alike, empty or full of one-node runs, and a queue of runs that ask for `sizes` in turn.

    `shared`: candidates that ask for the same do so with the same objects.
    """
    target = Target()
    demands = [requested(size) for size in sizes]
    candidates = tuple(
        queued_run(
            f"r{number:07}",
            demands[number % len(sizes)] if shared else requested(sizes[number % len(sizes)]),
            target if shared else Target(),
            NOW - waited_s + number * 1e-3,
        )
        for number in range(queued)
    )
    machines = tuple(
        Node(
            name=f"n{number}",
            cluster=LOCAL_CLUSTER,
            address="127.0.0.1",
            hostname=f"n{number}",
            capacity=Resources(slots=SLOTS),
        )
        for number in range(nodes)
    )
    held = tuple(holding(machine, demands[0], target) for machine in machines) if full else ()
    return Snapshot(pools=(), nodes=machines, queue=candidates, holdings=held)


def requested(slots: int) -> tuple[Demand, ...]:
    """One role that asks for so many slots in all."""
    return (Demand(role="main", replicas=None, slots=slots, each=Resources()),)


def queued_run(run_id: str, demands: tuple[Demand, ...], target: Target, queued_at: float) -> Candidate:
    """A batch run."""
    return Candidate(
        run_id=run_id,
        seq=2,
        demands=demands,
        target=target,
        mode=Mode.BATCH,
        queueing=Queueing.WAIT,
        priority=0,
        weight=1.0,
        position=None,
        submitted_at=queued_at,
        queued_at=queued_at,
        owner="ada",
        project="default",
        attempts=0,
        attained_slot_s=0.0,
        time_limit_s=None,
    )


def holding(node: Node, demands: tuple[Demand, ...], target: Target) -> Holding:
    """A run on all of a node."""
    seat = Seat(role="main", replica=0, node=node.name, slots=tuple(range(SLOTS)))
    return Holding(
        candidate=queued_run(f"h-{node.name}", demands, target, NOW - 5000),
        allocation=Allocation(cluster=LOCAL_CLUSTER, seats=(seat,)),
        granted_at=NOW - 5000,
        started_at=NOW - 5000,
        checkpoint_at=None,
        leaving=False,
    )


MIXED = (1, 2, 4, 8, 16, 32, 64)

ROWS = (
    Row(
        "8 nodes full, 10,000 queued alike",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), full=True),
        passing,
        10,
    ),
    Row(
        "8 nodes full, 10,000 queued alike, no objects shared",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), full=True, shared=False),
        passing,
        20,
    ),
    Row(
        "8 nodes full, 10,000 queued alike, the head's nodes are kept",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), full=True, waited_s=3600),
        passing,
        10,
    ),
    Row(
        "8 nodes full, 10,000 queued alike: why the last one waits",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), full=True),
        explaining_the_last,
        20,
    ),
    Row(
        "10,000 nodes full, 100,000 queued of 7 sizes",
        lambda: cluster(nodes=10_000, queued=100_000, sizes=MIXED, full=True),
        passing,
        500,
    ),
    Row(
        "10,000 nodes full, 100,000 queued of 7 sizes, the head's kept",
        lambda: cluster(nodes=10_000, queued=100_000, sizes=(512, *MIXED), full=True, waited_s=3600),
        passing,
        500,
    ),
    Row(
        "10,000 nodes full, 100,000 queued, kept for a head of 40,000 slots",
        lambda: cluster(nodes=10_000, queued=100_000, sizes=(40_000, *MIXED), full=True, waited_s=3600),
        passing,
        500,
    ),
    Row(
        "10,000 nodes empty, 5,000 queued of 7 sizes: 5,000 placements",
        lambda: cluster(nodes=10_000, queued=5_000, sizes=MIXED[:5], full=False),
        passing,
        1000,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
