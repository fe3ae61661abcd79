"""Samplers on functions whose optimum is published: 1,000 trials, eight at once. How near do they come?

Run with `python -m benchmarks.search_functions [--trials N] [--seeds N]`. `above` is the median over seeds of
the best value less the optimum. A decision is an event with its operations, the state as JSON included, in
processor time; the first ones of each search, which import parts of Optuna, are left out and shown apart.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import process_time
from typing import Any

from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec
from tarmac.samplers import searcher_of
from tarmac.search.moves import Create, Ended, Event, Operation, TrialEnd, Validation

AT_ONCE = 8
METHODS = (SearchMethod.RANDOM, SearchMethod.TPE, SearchMethod.CMA_ES)

_A = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
_P = (
    (1312, 1696, 5569, 124, 8283, 5886),
    (2329, 4135, 8307, 3736, 1004, 9991),
    (2348, 1451, 3522, 2883, 3047, 6650),
    (4047, 8828, 8732, 5743, 1091, 381),
)
_ALPHA = (1.0, 1.2, 3.0, 3.2)


def branin(x: Mapping[str, float]) -> float:
    """Branin-Hoo in its usual form: three minima of 0.397887."""
    bend = x["y"] - 5.1 / (4 * math.pi**2) * x["x"] ** 2 + 5 / math.pi * x["x"] - 6
    return bend**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x["x"]) + 10


def hartmann6(x: Mapping[str, float]) -> float:
    """Hartmann's function of six variables: the global minimum is -3.32237."""
    values = [x[f"x{at}"] for at in range(6)]
    return -sum(
        alpha
        * math.exp(-sum(a * (value - 1e-4 * p) ** 2 for a, p, value in zip(row, places, values, strict=True)))
        for alpha, row, places in zip(_ALPHA, _A, _P, strict=True)
    )


def rosenbrock(x: Mapping[str, float]) -> float:
    """Rosenbrock's valley in four variables: the minimum is 0, at ones."""
    values = [x[f"x{at}"] for at in range(4)]
    return sum(100 * (b - a * a) ** 2 + (1 - a) ** 2 for a, b in pairwise(values))


@dataclass(frozen=True, slots=True)
class Problem:
    """A function, its bounds, and its smallest value as published (Surjanovic and Bingham, VLSE)."""

    name: str
    function: Callable[[Mapping[str, float]], float]
    bounds: Mapping[str, tuple[float, float]]
    optimum: float


PROBLEMS = (
    Problem("Branin", branin, {"x": (-5.0, 10.0), "y": (0.0, 15.0)}, 0.397887),
    Problem("Hartmann6", hartmann6, {f"x{at}": (0.0, 1.0) for at in range(6)}, -3.32237),
    Problem("Rosenbrock4", rosenbrock, {f"x{at}": (-5.0, 10.0) for at in range(4)}, 0.0),
)


@dataclass(slots=True)
class Played:
    """What came of one search: the best value, seconds of each decision, bytes of the last state."""

    best: float
    costs_s: list[float]
    first_s: float
    state_bytes: int
    restore_s: float
    trials: int


def play(problem: Problem, method: SearchMethod, *, trials: int, seed: int) -> Played:
    """One search to its end."""
    space = tuple(
        ParameterRange(path=(name,), kind=RangeKind.UNIFORM, low=low, high=high)
        for name, (low, high) in problem.bounds.items()
    )
    spec = SearchSpec(
        method=method,
        metric="value",
        space=space,
        seed=seed,
        max_trials=trials,
        max_concurrent_trials=AT_ONCE,
    )
    searcher = searcher_of(spec, None)
    live: deque[Create] = deque()
    costs: list[float] = []
    kept = ""

    def take(operations: list[Operation]) -> None:
        live.extend(each for each in operations if isinstance(each, Create))

    def decide(event: Event) -> None:
        nonlocal kept
        before = process_time()
        operations = searcher.handle(event)
        kept = json.dumps(searcher.state, separators=(",", ":"))
        costs.append(process_time() - before)
        take(operations)

    take(searcher.begin())
    best, done = math.inf, 0
    while live:
        create = live.popleft()
        value = problem.function(create.parameters)
        best, done = min(best, value), done + 1
        decide(Validation(create.trial, 1, value))
        decide(Ended(create.trial, TrialEnd.COMPLETED))
    before = process_time()
    restored: Any = searcher_of(spec, json.loads(kept))
    restore_s = process_time() - before
    assert json.dumps(restored.state, separators=(",", ":")) == kept, "a restored search is another"
    first = max(costs[: 4 * AT_ONCE])
    return Played(best, costs[4 * AT_ONCE :], first, len(kept), restore_s, done)


def main() -> int:
    """Print a line for each function and method."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search_functions", description=__doc__)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(
        f"{'function':<13}{'optimum':>9}  {'method':<8}{'trials':>7}{'above':>11}{'p50 ms':>9}{'p99 ms':>9}"
        f"{'first':>8}{'state':>8}{'restored':>10}"
    )
    for problem in PROBLEMS:
        for method in METHODS:
            played = [
                play(problem, method, trials=options.trials, seed=seed) for seed in range(options.seeds)
            ]
            costs = sorted(cost for each in played for cost in each.costs_s)
            above = median(each.best for each in played) - problem.optimum
            print(
                f"{problem.name:<13}{problem.optimum:>9.5g}  {method:<8}{played[0].trials:>7,}{above:>11.2g}"
                f"{costs[len(costs) // 2] * 1e3:>9.2f}{costs[int(len(costs) * 0.99)] * 1e3:>9.2f}"
                f"{played[0].first_s * 1e3:>6.0f}ms{played[0].state_bytes / 1024:>6.0f}KB"
                f"{played[0].restore_s:>9.2f}s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
