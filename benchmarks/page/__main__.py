"""`python -m benchmarks.page`: every action on every page, a crowd of tabs, and a long log; print the tables.

The exit code is 1 where a median is over its budget. Times are those of this machine as it is: beside other
work they are longer.
"""

from __future__ import annotations

import argparse
import os
import sys

from benchmarks.page.crowd import Crowded, crowd
from benchmarks.page.filled import admitted, browser, filled_server
from benchmarks.page.long_log import long_log
from benchmarks.page.timing import BUDGETS, Figures, figures_of
from page_actions import actions

PARTS = ("actions", "crowd", "log")


def main() -> int:
    options = _options()
    missed = 0
    for runs in map(int, options.runs.split(",")) if options.only != "log" else ():
        with filled_server(runs) as (client, filled):
            if options.only in ("", "actions"):
                with browser() as opened:
                    page = admitted(opened, client, slow=options.slow)
                    slow = f", a processor {options.slow:g} times slower" if options.slow > 1 else ""
                    _head(f"{runs:,} runs{slow}", options.times)
                    for action in actions(client, filled):
                        if options.page in ("", action.page):
                            missed += _line(figures_of(page, action, options.times))
            if options.only in ("", "crowd"):
                with browser() as opened:
                    _print_crowd(runs, crowd(opened, client, tabs=options.tabs, times=options.times))
    if options.only in ("", "log"):
        with filled_server(1_000) as (client, _), browser() as opened:
            page = admitted(opened, client)
            _head(f"A log of {options.lines:,} lines", options.times)
            for figures in long_log(page, client, lines=options.lines, times=options.times):
                missed += _line(figures)
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--runs", default="10000,100000", help="how many runs the server has")
    parser.add_argument("--times", type=int, default=20, help="how often each action is made (20)")
    parser.add_argument("--tabs", type=int, default=50, help="how many tabs the crowd has (50)")
    parser.add_argument("--lines", type=int, default=5_000_000, help="how many lines the log has")
    parser.add_argument("--slow", type=float, default=1.0, help="how much slower the browser's processor is")
    parser.add_argument("--only", default="", choices=("", *PARTS), help="one of the three parts")
    parser.add_argument("--page", default="", help="only the actions on this page")
    return parser.parse_args()


def _head(title: str, times: int) -> None:
    print(f"\n### {title}\n\nMedians of {times}, in ms; load {os.getloadavg()[0]:.0f}.\n")
    print(f"| page | action | {' | '.join(BUDGETS)} | |\n|---|---|---:|---:|---:|---:|---|")


def _line(figures: Figures) -> int:
    """Print the figures of an action; returns how many are over their budgets."""
    over = [name for name, value in figures.medians.items() if value > BUDGETS[name]]
    if figures.problem:
        over.append(figures.problem)
    cells = [f"{figures.medians[name]:.0f}" if name in figures.medians else "" for name in BUDGETS]
    result = f"over: {', '.join(over)}" if over else "ok"
    print(f"| {figures.page} | {figures.name} | {' | '.join(cells)} | {result} |", flush=True)
    return len(over)


def _print_crowd(runs: int, found: Crowded) -> None:
    print(f"\n### {found.tabs} tabs of one browser, {runs:,} runs\n\n| what | |\n|---|---:|")
    for name, text in found.rows():
        print(f"| {name} | {text} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
