"""What the scheduler costs: whole passes, single events, memory, and how the cost grows.

Run with `python benchmarks/sched_plan.py [--check]`; --check ends with 1 if a processor time is out of range.
"""

import gc
import math
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from tarmac.model.cluster import LOCAL_CLUSTER, Node, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import WorkerPlacement
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation
from tarmac.model.spec import Queueing, Target
from tarmac.sched import Candidate, Demand, Holding, Ledger, Plan, Snapshot, explain, plan

NOW = 1_000_000.0
SLOTS = 8
REPEATS = 3
EVENTS = 200
EVENT_P50_MS = 5.0
EVENT_P99_MS = 40.0
MEMORY_LIMIT_BYTES = 1 << 30
EXPONENT_LIMIT = 1.25
"""Time grows with size to this power at most: n log n looks like 1.13 here, and clocks jitter."""


def main() -> int:
    """Print the tables."""
    if "--memory" in sys.argv:
        return memory_of_one()
    figures = [*passes(), *events(), *growth(), memory()]
    for figure in (missed := [figure for figure in figures if figure.value > figure.budget]):
        print(f"missed: {figure.name}: {figure.value:.4g} {figure.unit}, more than {figure.budget:g}")
    return 1 if missed and "--check" in sys.argv else 0


class Figure(Struct, frozen=True):
    """What was measured, and what it may be at most."""

    name: str
    value: float
    budget: float
    unit: str = "ms"

    def __post_init__(self) -> None:
        print(f"{self.name:<84}{self.value:>9.2f} {self.unit:<4}{self.budget:>9g}", flush=True)


class Row(Struct, frozen=True):
    """A pass to be timed: on a snapshot made anew each time, so that nothing is warm by accident."""

    name: str
    snapshot: Callable[[], Snapshot]
    work: Callable[[Snapshot], Callable[[], object]]
    budget_ms: float


def passes() -> Iterator[Figure]:
    """Whole passes: of a kept ledger, from nothing, and from an empty cluster."""
    for row in ROWS:
        times = (elapsed_ms(row.work(row.snapshot())) for _ in range(REPEATS))
        yield Figure(row.name, min(times), row.budget_ms)


def elapsed_ms(work: Callable[[], object]) -> float:
    """How long some work takes, once."""
    gc.collect()
    began = time.process_time()
    work()
    return (time.process_time() - began) * 1000


def kept(snapshot: Snapshot) -> Callable[[], object]:
    """One pass of a ledger that knows its facts: the first, for which nothing is remembered."""
    ledger = Ledger(snapshot)
    return lambda: ledger.plan(NOW)


def from_nothing(snapshot: Snapshot) -> Callable[[], object]:
    """A ledger is made, and makes one pass."""
    return lambda: plan(snapshot, NOW)


def explaining_the_last(snapshot: Snapshot) -> Callable[[], object]:
    """`tarmac why` for the run at the end of the queue."""
    return lambda: explain(snapshot, snapshot.queue[-1].run_id, NOW)


def events() -> Iterator[Figure]:
    """Single events at full size: a submission, and the end of a run, each with the pass that follows."""
    for title, kinds, limits, pool in (
        ("7 kinds", 7, False, DEFAULT),
        ("1,000 kinds", 1000, False, DEFAULT),
        ("1,000 kinds, time limits", 1000, True, DEFAULT),
        ("1,000 kinds, fair_share of 200 users", 1000, False, replace(DEFAULT, policy=Policy.FAIR_SHARE)),
        ("1,000 kinds, least_attained", 1000, False, replace(DEFAULT, policy=Policy.LEAST_ATTAINED)),
        ("1,000 kinds, preemption", 1000, False, PREEMPTING),
        ("1,000 kinds, least_attained, preemption", 1000, False, CLIMBING),
        ("1,000 kinds, fair_share, preemption", 1000, False, replace(PREEMPTING, policy=Policy.FAIR_SHARE)),
    ):
        submitted, ended = lived(kinds=kinds, limits=limits, pool=pool)
        for what, times in (("a submission", submitted), ("the end of a run", ended)):
            for share, budget_ms in ((0.5, EVENT_P50_MS), (0.99, EVENT_P99_MS)):
                name = f"{what} decided, 10,000 nodes, 100,000 queued of {title}: p{share * 100:.0f}"
                yield Figure(name, percentile(times, share), budget_ms)


def lived(
    *, kinds: int, limits: bool, pool: Pool, nodes: int = 10_000, queued: int = 100_000
) -> tuple[list[float], list[float]]:
    """Milliseconds of some submissions and some ends of runs, in turns, what is planned being carried out."""
    facts = varied(kinds=kinds, limits=limits, pool=pool, nodes=nodes, queued=queued, dice=random.Random(1))
    return lived_on(facts)


def lived_on(facts: Snapshot, plans: list[float] | None = None) -> tuple[list[float], list[float]]:
    """The same from these facts on; `plans` receives the times of the plans before the first event."""
    dice = random.Random(2)
    ledger = Ledger(facts)
    known = {item.run_id: item for item in (*facts.queue, *(held.candidate for held in facts.holdings))}
    first, before = list[Plan](), [] if plans is None else plans
    while not first or carry_out(ledger, first[-1], known, NOW):  # a day like any other follows
        before.append(elapsed_ms(lambda: first.append(ledger.plan(NOW))))
    holding_ids = [held.candidate.run_id for held in ledger.snapshot().holdings]
    dice.shuffle(holding_ids)
    submitted, ended = list[float](), list[float]()
    gc.freeze()
    for number in range(EVENTS):
        now = NOW + number
        run = replace(facts.queue[dice.randrange(len(facts.queue))], run_id=f"z{number:04}", submitted_at=now)
        known[run.run_id] = run
        for times, change, fact in (
            (submitted, ledger.queue, run),
            (ended, ledger.forget, holding_ids.pop() if holding_ids else run.run_id),
        ):
            began = time.process_time()
            change(fact)  # type: ignore[arg-type]
            made = ledger.plan(now)
            times.append((time.process_time() - began) * 1000)
            carry_out(ledger, made, known, now)
    gc.unfreeze()
    return submitted, ended


def carry_out(ledger: Ledger, made: Plan, known: dict[str, Candidate], now: float) -> int:
    """Record what was planned: preempted runs have left at once, refused ones are gone. How many were."""
    for refusal in made.refusals:
        ledger.forget(refusal.run_id)
    for preemption in made.preemptions:
        run_id = preemption.run_id
        ledger.forget(run_id)
        known[run_id] = replace(known[run_id], queued_at=now, attained_slot_s=40_000.0)
        ledger.queue(known[run_id])
    for placement in made.placements:
        candidate = known[placement.run_id]
        ledger.hold(
            Holding(
                candidate=candidate,
                allocation=placement.allocation,
                granted_at=now,
                started_at=now,
                checkpoint_at=None,
                leaving=False,
            )
        )
    return len(made.preemptions) + len(made.refusals)


def varied(*, kinds: int, limits: bool, pool: Pool, nodes: int, queued: int, dice: random.Random) -> Snapshot:
    """A full cluster and a queue of many kinds of runs, of many users."""
    sizes = (*MIXED, *range(3, kinds))[:kinds]
    facts = cluster(nodes=nodes, queued=queued, sizes=sizes, free=0, waited_s=3600)
    queue = tuple(
        replace(
            candidate,
            owner=f"u{number % 200}",
            attained_slot_s=float(dice.randrange(100_000)),
            time_limit_s=float(dice.randrange(60, 100_000)) if limits else None,
        )
        for number, candidate in enumerate(facts.queue)
    )
    held = tuple(
        replace(
            holding,
            candidate=replace(
                holding.candidate,
                owner=f"u{number % 200}",
                time_limit_s=float(dice.randrange(6_000, 100_000)) if limits else None,
            ),
        )
        for number, holding in enumerate(facts.holdings)
    )
    return replace(facts, pools=(pool,), queue=queue, holdings=held)


def percentile(values: Sequence[float], share: float) -> float:
    """The value below which this share of them lies."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def growth() -> Iterator[Figure]:
    """How the cost of a ledger and its first pass, and of an event, grows with nodes and with the queue."""
    for what, sizes in (
        ("nodes", [(nodes, 20_000) for nodes in (1_000, 2_000, 5_000, 10_000)]),
        ("queued", [(1_000, queued) for queued in (1_000, 3_000, 10_000, 30_000, 100_000)]),
    ):
        print(f"\n{'nodes':>8}{'queued':>9}{'made and planned, ms':>24}{'per event, ms':>16}")
        whole, single = [], []
        for nodes, queued in sizes:
            snapshot = cluster(nodes=nodes, queued=queued, sizes=MIXED, free=0, waited_s=3600)
            work = from_nothing(snapshot)
            whole.append(min(elapsed_ms(work) for _ in range(REPEATS)))
            submitted, ended = lived(kinds=7, limits=True, pool=DEFAULT, nodes=nodes, queued=queued)
            single.append(percentile([*submitted, *ended], 0.5))
            print(f"{nodes:>8}{queued:>9}{whole[-1]:>24.1f}{single[-1]:>16.3f}", flush=True)
        scale = [size[what == "queued"] for size in sizes]
        yield Figure(
            f"made and planned: grows with {what} to the power", exponent(scale, whole), EXPONENT_LIMIT, ""
        )
        yield Figure(f"an event: grows with {what} to the power", exponent(scale, single), EXPONENT_LIMIT, "")


def exponent(sizes: Sequence[int], times: Sequence[float]) -> float:
    """The slope of a straight line through the logarithms."""
    return statistics.linear_regression(
        *([math.log(value) for value in line] for line in (sizes, times))
    ).slope


def memory() -> Figure:
    """The most memory that a process of its own needs for a ledger at full size and a pass."""
    told = subprocess.run([sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True)
    name = "memory of a process with 10,000 nodes, 100,000 queued of 1,000 kinds"
    return Figure(name, int(told.stdout) / (1 << 20), MEMORY_LIMIT_BYTES / (1 << 20), "MiB")


def memory_of_one() -> int:
    """Fill this process and print its peak."""
    dice = random.Random(1)
    facts = varied(kinds=1000, limits=True, pool=DEFAULT, nodes=10_000, queued=100_000, dice=dice)
    ledger = Ledger(facts)
    ledger.plan(NOW)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
    return 0


def cluster(
    *,
    nodes: int,
    queued: int,
    sizes: tuple[int, ...],
    free: int,
    waited_s: float = 0.0,
    shared: bool = True,
) -> Snapshot:
    """Nodes alike, the first `free` empty, the others full, and a queue of runs that ask for `sizes` in turn.

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
    held = tuple(holding(machine, demands[0], target) for machine in machines[free:])
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
    placement = WorkerPlacement(role="main", replica=0, node=node.name, slots=tuple(range(SLOTS)))
    return Holding(
        candidate=queued_run(f"h-{node.name}", demands, target, NOW - 5000),
        allocation=Allocation(cluster=LOCAL_CLUSTER, placements=(placement,)),
        granted_at=NOW - 5000,
        started_at=NOW - 5000,
        checkpoint_at=None,
        leaving=False,
    )


MIXED = (1, 2, 4, 8, 16, 32, 64)
DEFAULT = Pool(cluster=LOCAL_CLUSTER)
PREEMPTING = replace(DEFAULT, preemption=True)
CLIMBING = replace(PREEMPTING, policy=Policy.LEAST_ATTAINED)

ROWS = (
    Row(
        "8 nodes full, 10,000 queued alike: made and planned",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), free=0),
        from_nothing,
        100,
    ),
    Row(
        "8 nodes full, 10,000 queued alike, no objects shared: made and planned",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), free=0, shared=False),
        from_nothing,
        120,
    ),
    Row(
        "8 nodes full, 10,000 queued alike, the head's nodes are kept: one plan",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), free=0, waited_s=3600),
        kept,
        10,
    ),
    Row(
        "8 nodes full, 10,000 queued alike: why the last one waits",
        lambda: cluster(nodes=8, queued=10_000, sizes=(8,), free=0),
        explaining_the_last,
        250,
    ),
    Row(
        "10,000 nodes full, 100,000 queued of 7 sizes: one plan",
        lambda: cluster(nodes=10_000, queued=100_000, sizes=MIXED, free=0),
        kept,
        500,
    ),
    Row(
        "10,000 nodes full, 100,000 queued of 7 sizes, the heads' nodes kept: one plan",
        lambda: cluster(nodes=10_000, queued=100_000, sizes=(512, *MIXED), free=1, waited_s=3600),
        kept,
        500,
    ),
    Row(
        "10,000 nodes full, 100,000 queued, kept for heads of 40,000 slots: one plan",
        lambda: cluster(nodes=10_000, queued=100_000, sizes=(40_000, *MIXED), free=1, waited_s=3600),
        kept,
        500,
    ),
    Row(
        "10,000 nodes full, 100,000 queued of 7 sizes: made from nothing and planned",
        lambda: cluster(nodes=10_000, queued=100_000, sizes=MIXED, free=0),
        from_nothing,
        2000,
    ),
    Row(
        "10,000 nodes empty, 5,000 queued of 5 sizes: 5,000 placements",
        lambda: cluster(nodes=10_000, queued=5_000, sizes=MIXED[:5], free=10_000),
        kept,
        1000,
    ),
)


if __name__ == "__main__":
    sys.exit(main())
