"""What renting saves of the waits on Philly's trace, and its cost, at three prices and several budgets.

Run with `python -m benchmarks.burst TRACE [--plot FILE]`. Prints a table; `--plot` draws it into FILE (.png
or .svg), which needs matplotlib.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tarmac.cli.views.plotting import COLOURS, picture
from tarmac.model.cluster import Policy
from tarmac.simulator.comparing import Result, Setting, play_all
from tarmac.simulator.playing import Rules
from tarmac.simulator.renting import read_rules
from tarmac.simulator.shapes import shape_of
from tarmac.simulator.traces import read_trace

PRICES = (1.0, 2.5, 5.0)
"""Money for one GPU and hour."""

BUDGETS = (50_000, 100_000, None)
RULE = "when: wait > 2h, below: 40/h, start_up: 8m"
"""At 5.00 for a GPU, this rate admits jobs of up to 8 GPUs."""

HOUR_S, DAY_S = 3_600.0, 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """A play: the price and the budget of rented machines (price None: none are rented)."""

    price: float | None = None
    budget: int | None = None

    @property
    def rules(self) -> Rules:
        """Its rules."""
        if self.price is None:
            return Rules(policy=Policy.PRIORITY)
        budget = "" if self.budget is None else f", budget: {self.budget}"
        return Rules(policy=Policy.PRIORITY, burst=read_rules(f"{RULE}, rate: {self.price}/h{budget}"))


Found = Mapping[Situation, Result]


def main() -> int:
    """Play, print, draw."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.burst", description=__doc__)
    parser.add_argument("trace", help="the published trace of Philly")
    parser.add_argument("--plot", metavar="FILE", type=Path, help="draw the table")
    options = parser.parse_args()
    found = play(options.trace)
    print(table(found))
    if options.plot is not None:
        draw(found, options.plot)
    return 0


def play(path: str) -> Found:
    """The results of all situations."""
    trace = read_trace(path)
    cluster = shape_of(trace.cluster or "")
    assert cluster is not None, "the trace is that of Philly"
    rented = [Situation(price=price, budget=budget) for price in PRICES for budget in BUDGETS]
    situations = [Situation(), *rented]
    settings = [
        Setting(label=str(number), trace=trace, cluster=cluster, rules=each.rules)
        for number, each in enumerate(situations)
    ]
    results = play_all(settings, workers=len(os.sched_getaffinity(0)), progress=_report)
    return dict(zip(situations, results, strict=True))


def table(found: Found) -> str:
    """A row for each situation, in Markdown."""
    heads = ("price", "budget", "cost", "jobs that rented", "GPU-hours", "mean wait", "p50", "p99")
    rows = [heads, ("---:",) * 8, *(_row(*item) for item in found.items())]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _row(situation: Situation, result: Result) -> Sequence[str]:
    of = result.measures
    waits = (of.queueing_mean_s, of.queueing_p50_s, of.queueing_p99_s)
    shown = [f"{wait_s / HOUR_S:.2f} h" for wait_s in waits if wait_s is not None]
    if of.rentals is None:
        return ("none rented", "", "0", "0", "0", *shown)
    budget = "none" if situation.budget is None else f"{situation.budget:,}"
    spent = (f"{of.rentals.cost:,.0f}", f"{of.rentals.jobs:,}", f"{of.rentals.machine_hours:,.0f}")
    return (f"{situation.price:.2f}", budget, *spent, *shown)


def draw(found: Found, file: Path) -> None:
    """The mean wait and the 99th percentile by the money spent, a line for each price."""
    without = found[Situation()].measures
    assert without.queueing_mean_s is not None
    assert without.queueing_p99_s is not None
    with picture(file, 10.0, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        for price, colour in zip(PRICES, COLOURS, strict=False):
            of = [found[Situation(price=price, budget=budget)].measures for budget in BUDGETS]
            costs = [0.0, *(each.rentals.cost / 1_000 for each in of if each.rentals is not None)]
            means = [without.queueing_mean_s, *(each.queueing_mean_s or 0.0 for each in of)]
            tails = [without.queueing_p99_s, *(each.queueing_p99_s or 0.0 for each in of)]
            label = f"{price:.2f} for a GPU and hour"
            left.plot(costs, [s / HOUR_S for s in means], "o-", color=colour, markersize=4, label=label)
            right.plot(costs, [s / DAY_S for s in tails], "o-", color=colour, markersize=4, label=label)
        left.set(title="mean wait", xlabel="money spent, thousands", ylabel="hours")
        right.set(title="99th percentile of the waits", xlabel="money spent, thousands", ylabel="days")
        for axes in (left, right):
            axes.set_ylim(bottom=0)
            axes.set_xlim(left=0)
        left.legend(frameon=False)


def _report(ended: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{ended:,} of {of:,} jobs", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
