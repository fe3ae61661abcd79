"""How the cost of an event grows with the queue: nodes drained, a user for each run, runs that preempt.

Run with `python -m benchmarks.sched_growth [--check] [--plot FILE]`: with `--check` it ends with 1 if one is
out of range; with `--plot` it draws the table into FILE (.png, .svg or .pdf), which needs matplotlib.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence

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
from tarmac.model.codec import replace
from tarmac.sched import Demand, Snapshot

SIZES = (1_000, 10_000, 100_000)

Growth = Mapping[str, Sequence[tuple[float, float]]]
"""By situation, p50 and p99 of an event in ms for each of SIZES."""


def main() -> int:
    """Print the table, and draw it where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sched_growth", description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 where a figure is out of range")
    parser.add_argument("--plot", metavar="FILE", help="draw the table")
    options = parser.parse_args()
    growth: dict[str, Sequence[tuple[float, float]]] = {}
    missed = [figure for figure in growth_of_events(growth) if figure.value > figure.budget]
    if options.plot:
        draw(growth, options.plot)
    return 1 if missed and options.check else 0


def growth_of_events(growth: MutableMapping[str, Sequence[tuple[float, float]]]) -> Iterator[Figure]:
    """An event with 1,000 to 100,000 queued: drained nodes, many users, runs that preempt each other."""
    print(f"\n{'an event, ms, p50 / p99, by runs queued':<60}" + "".join(f"{size:>16}" for size in SIZES))
    for name, facts in GROWING:
        times = []
        for size in SIZES:
            submitted, ended = lived_on(facts(size))
            both = [*submitted, *ended]
            times.append((percentile(both, 0.5), percentile(both, 0.99)))
        print(f"{name:<60}" + "".join(f"{half:>9.2f} /{most:>5.1f}" for half, most in times), flush=True)
        growth[name] = times
        yield Figure(f"an event, 100,000 queued, {name}: p50", times[-1][0], EVENT_P50_MS)
        yield Figure(f"an event, 100,000 queued, {name}: p99", times[-1][1], EVENT_P99_MS)


def draw(growth: Growth, file: str) -> None:
    """Both percentiles of each situation over the length of the queue, and their budgets, on log scales."""
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - only who draws needs it

    picture = Picture(figsize=(11, 4.5), layout="constrained")
    for axes, number, title, budget_ms in zip(
        picture.subplots(1, 2, sharey=True), (0, 1), ("p50", "p99"), (EVENT_P50_MS, EVENT_P99_MS), strict=True
    ):
        for name, times in growth.items():
            axes.loglog(SIZES, [both[number] for both in times], marker="o", label=name)
        axes.axhline(budget_ms, linestyle="--", color="grey", label="budget")
        axes.set(title=f"an event, {title}", xlabel="runs queued", ylabel="ms")
    axes.legend(fontsize="x-small")
    picture.savefig(file)


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
    """Runs that have climbed are preempted for those that have not."""
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
    raise SystemExit(main())
