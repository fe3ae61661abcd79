"""How the cost of an event grows with the queue: nodes drained, a user for each run, each policy.

Run with `python -m benchmarks.sched_growth [--check] [--plot FILE]`: with `--check` it ends with 1 if one is
out of range; with `--plot` it draws the table into FILE (.png, .svg or .pdf), which needs matplotlib.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial

from benchmarks.sched_plan import (
    DEFAULT,
    PREEMPTING,
    SLOTS,
    Figure,
    exponent,
    lived_on,
    percentile,
    varied,
)
from tarmac.model.cluster import NodeState, Policy
from tarmac.model.codec import replace
from tarmac.sched import Demand, Snapshot

SIZES = (1_000, 10_000, 100_000)
EVENT_P50_MS = 2.0
EVENT_P99_MS = 20.0
PLAN_MS = 500.0
USERS = 1_000

Measured = tuple[float, float, float]
"""Processor time in ms: p50 and p99 of an event, and the longest of the plans until all victims have left."""

Growth = Mapping[str, Sequence[Measured]]
"""By situation, what was measured for each of SIZES."""


def main() -> int:
    """Print the table, and draw it where that is asked for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sched_growth", description=__doc__)
    parser.add_argument("--check", action="store_true", help="end with 1 where a figure is out of range")
    parser.add_argument("--plot", metavar="FILE", help="draw the table")
    options = parser.parse_args()
    growth: dict[str, Sequence[Measured]] = {}
    missed = [figure for figure in growth_of_events(growth) if figure.value > figure.budget]
    if options.plot:
        draw(growth, options.plot)
    return 1 if missed and options.check else 0


def growth_of_events(growth: MutableMapping[str, Sequence[Measured]]) -> Iterator[Figure]:
    """An event with 1,000 to 100,000 queued: drained nodes, many users, runs that preempt each other."""
    title = "p50 / p99 of an event, and the longest first plan, ms, by runs queued"
    print(f"\n{title:<70}" + "".join(f"{size:>24}" for size in SIZES) + "  grows with the power")
    for name, facts in GROWING:
        times = []
        for size in SIZES:
            plans = list[float]()
            submitted, ended = lived_on(facts(size), plans)
            both = [*submitted, *ended]
            times.append((percentile(both, 0.5), percentile(both, 0.99), max(plans)))
        told = "".join(f"{half:>9.2f} /{most:>6.1f} /{first:>6.0f}" for half, most, first in times)
        powers = [exponent(SIZES, [max(each[number], 0.01) for each in times]) for number in range(3)]
        print(f"{name:<70}{told}" + "".join(f"{power:>7.2f}" for power in powers), flush=True)
        growth[name] = times
        half, most, first = times[-1]
        yield Figure(f"an event, 100,000 queued, {name}: p50", half, EVENT_P50_MS)
        yield Figure(f"an event, 100,000 queued, {name}: p99", most, EVENT_P99_MS)
        yield Figure(f"the first plans, 100,000 queued, {name}", first, PLAN_MS)


def draw(growth: Growth, file: str) -> None:
    """What was measured of each situation over the length of the queue, and the budgets, on log scales."""
    from matplotlib.figure import Figure as Picture  # noqa: PLC0415 - only who draws needs it

    picture = Picture(figsize=(15, 6), layout="constrained")
    titles = ("an event, p50", "an event, p99", "the longest first plan")
    budgets = (EVENT_P50_MS, EVENT_P99_MS, PLAN_MS)
    columns = picture.subplots(1, 3)
    for number, axes in enumerate(columns):
        for line, (name, times) in enumerate(growth.items()):
            style = {"marker": "osD^"[line // 10 * 2 + line % 2], "color": f"C{line % 10}"}
            axes.loglog(SIZES, [max(each[number], 0.01) for each in times], label=name, **style)
        axes.axhline(budgets[number], linestyle="--", color="grey", label="budget")
        axes.set(title=titles[number], xlabel="runs queued", ylabel="ms of processor time")
    picture.legend(*axes.get_legend_handles_labels(), fontsize="small", loc="outside lower center", ncols=3)
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


def busy(queued: int, *, policy: Policy, preemption: bool, kinds: int) -> Snapshot:
    """A full cluster, and a queue of 1,000 users; with preemption those who come first preempt others."""
    pool = replace(PREEMPTING if preemption else DEFAULT, policy=policy)
    nodes = max(10, queued // 10)
    kinds = min(kinds, SLOTS * nodes)  # none is refused
    facts = varied(kinds=kinds, limits=False, pool=pool, nodes=nodes, queued=queued, dice=random.Random(1))
    queue = tuple(replace(item, owner=f"u{number * 7919 % USERS}") for number, item in enumerate(facts.queue))
    held = tuple(
        replace(item, candidate=replace(item.candidate, owner=f"u{number * 104_729 % USERS}"))
        for number, item in enumerate(facts.holdings)
    )
    return replace(facts, queue=queue, holdings=held)


GROWING: tuple[tuple[str, Callable[[int], Snapshot]], ...] = (
    ("half of the nodes drained", lambda queued: drained(queued, everything=False)),
    (
        "half of the nodes drained, preemption",
        lambda queued: drained(queued, everything=False, preemption=True),
    ),
    ("all nodes drained", lambda queued: drained(queued, everything=True)),
    ("fair_share, a user for each run", lambda queued: shared(queued, preemption=False)),
    ("fair_share, a user for each run, preemption", lambda queued: shared(queued, preemption=True)),
    *(
        (
            f"{policy}, 1,000 users, {kinds:,} kinds{', preemption' if preemption else ''}",
            partial(busy, policy=policy, preemption=preemption, kinds=kinds),
        )
        for policy in Policy
        for preemption in (False, True)
        for kinds in (7, 1000)
        if preemption or kinds > 7
    ),
)


if __name__ == "__main__":
    raise SystemExit(main())
