"""How the cost of an event grows with the queue: nodes drained, a user for each run, runs that preempt.

Run with `python -m benchmarks.sched_growth [--check]`: with `--check` it ends with 1 if one is out of range.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

from benchmarks.sched_plan import (
    DEFAULT,
    EVENT_P50_MS,
    EVENT_P99_MS,
    PREEMPTING,
    Figure,
    lived_on,
    percentile,
    varied,
)
from tarmac.model.cluster import NodeState, Policy
from tarmac.sched import Demand, Snapshot


def main() -> int:
    """Print the table."""
    missed = [figure for figure in growth_of_events() if figure.value > figure.budget]
    return 1 if missed and "--check" in sys.argv else 0


def growth_of_events() -> Iterator[Figure]:
    """An event with 1,000 to 100,000 queued: drained nodes, many users, runs that preempt each other."""
    sizes = (1_000, 10_000, 100_000)
    print(f"\n{'an event, ms, p50 / p99, by runs queued':<60}" + "".join(f"{size:>16}" for size in sizes))
    for name, facts in GROWING:
        times = []
        for size in sizes:
            submitted, ended = lived_on(facts(size))
            both = [*submitted, *ended]
            times.append((percentile(both, 0.5), percentile(both, 0.99)))
        print(f"{name:<60}" + "".join(f"{half:>9.2f} /{most:>5.1f}" for half, most in times), flush=True)
        yield Figure(f"an event, 100,000 queued, {name}: p50", times[-1][0], EVENT_P50_MS)
        yield Figure(f"an event, 100,000 queued, {name}: p99", times[-1][1], EVENT_P99_MS)


def drained(queued: int, *, everything: bool, preemption: bool = False) -> Snapshot:
    """Half of the nodes (or all) drained, and the queue full of runs that want those."""
    dice = random.Random(1)
    pool = PREEMPTING if preemption else DEFAULT
    facts = varied(kinds=1000, limits=False, pool=pool, nodes=max(10, queued // 10), queued=queued, dice=dice)
    half = len(facts.nodes) // 2
    nodes = tuple(
        replace(
            node,
            state=NodeState.DRAINED if everything or number < half else NodeState.UP,
            capacity=replace(node.capacity, slot_type="h100" if number < half else "a100"),
        )
        for number, node in enumerate(facts.nodes)
    )
    typed: dict[tuple[Demand, ...], tuple[Demand, ...]] = {}
    for candidate in facts.queue:
        (demand,) = candidate.demands
        each = replace(demand.each, slot_type="h100")
        typed.setdefault(candidate.demands, (replace(demand, each=each),))
    queue = tuple(
        replace(candidate, demands=typed[candidate.demands]) if number % 10 else candidate
        for number, candidate in enumerate(facts.queue)
    )
    held = tuple(item for number, item in enumerate(facts.holdings) if number >= half and not everything)
    return replace(facts, nodes=nodes, queue=queue, holdings=held)


def shared(queued: int, *, preemption: bool) -> Snapshot:
    """Fair share, every queued run of a user of its own."""
    dice = random.Random(1)
    pool = replace(PREEMPTING if preemption else DEFAULT, policy=Policy.FAIR_SHARE)
    facts = varied(kinds=7, limits=False, pool=pool, nodes=max(10, queued // 10), queued=queued, dice=dice)
    queue = tuple(replace(item, owner=f"u{number}") for number, item in enumerate(facts.queue))
    return replace(facts, queue=queue)


def preempting(queued: int) -> Snapshot:
    """Runs that have climbed give way to those that have not."""
    pool = replace(PREEMPTING, policy=Policy.LEAST_ATTAINED)
    nodes = max(10, queued // 10)
    return varied(kinds=1000, limits=False, pool=pool, nodes=nodes, queued=queued, dice=random.Random(1))


GROWING: tuple[tuple[str, Callable[[int], Snapshot]], ...] = (
    ("half of the nodes drained", lambda queued: drained(queued, everything=False)),
    (
        "half of the nodes drained, preemption",
        lambda queued: drained(queued, everything=False, preemption=True),
    ),
    ("all nodes drained", lambda queued: drained(queued, everything=True)),
    ("fair_share, a user for each run", lambda queued: shared(queued, preemption=False)),
    ("fair_share, a user for each run, preemption", lambda queued: shared(queued, preemption=True)),
    ("least_attained, preemption", preempting),
)


if __name__ == "__main__":
    sys.exit(main())
