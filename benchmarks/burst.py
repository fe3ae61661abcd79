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
from typing import Any

from tarmac.cli.views.plotting import COLOURS, picture
from tarmac.model.cluster import Policy
from tarmac.simulator.comparing import Result, Setting, play_all
from tarmac.simulator.playing import Rules
from tarmac.simulator.renting import read_rules
from tarmac.simulator.shapes import shape_of
from tarmac.simulator.traces import read_trace

PRICES = (1.0, 2.5, 5.0)
"""Money for one GPU and hour."""

BUDGETS = (50_000, None)
RULE = "when: wait > 2h, below: 40/h, start_up: 8m"
"""At 5.00 for a GPU, this rate admits jobs of up to 8 GPUs."""

HOUR_S = 3_600.0


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
        return Rules(policy=Policy.PRIORITY, renting=read_rules(f"{RULE}, rate: {self.price}/h{budget}"))


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
    """The mean and the 99th percentile of the waits by the money spent, a colour for each price."""
    with picture(file, 10.0, 4.2) as figure:
        left, right = figure.subplots(1, 2)
        for price, colour in zip(PRICES, COLOURS, strict=False):
            of = [found[Situation()].measures]
            of += [found[Situation(price=price, budget=budget)].measures for budget in BUDGETS]
            costs = [each.rentals.cost / 1_000 if each.rentals is not None else 0.0 for each in of]
            means = [(each.queueing_mean_s or 0.0) / HOUR_S for each in of]
            tails = [(each.queueing_p99_s or 0.0) / HOUR_S for each in of]
            style = {"color": colour, "marker": "o", "linestyle": ":", "linewidth": 1.0}
            left.plot(costs, means, label=f"{price:.2f} for a GPU and hour", **style)
            right.plot(costs, tails, **style)
            left.annotate("no budget", (costs[-1], means[-1]), (7, -3), **_NOTE)
            right.annotate("no budget", (costs[-1], tails[-1]), (7, -3), **_NOTE)
        for axes, title in ((left, "the mean wait"), (right, "the 99th percentile of the waits")):
            axes.set(title=title, xlabel="money spent in two months, thousands", ylabel="hours")
            axes.set_ylim(0, 1.15 * axes.dataLim.y1)
            axes.set_xlim(-10, 1.2 * costs[-1])
            start = axes.lines[0].get_ydata()[:1]
            for budget in filter(None, BUDGETS):
                axes.axvline(budget / 1_000, color="#bbbbbb", linewidth=0.8, zorder=0)
                top = (budget / 1_000, axes.get_ylim()[1])
                axes.annotate(f"a budget of {budget:,}", top, (4, -10), **_NOTE)
            axes.plot([0], start, marker="o", linestyle="", color="#555555", label="none rented")
        left.legend(frameon=False)


_NOTE: dict[str, Any] = {"textcoords": "offset points", "fontsize": 8, "color": "#555555"}


def _report(ended: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{ended:,} of {of:,} jobs", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
