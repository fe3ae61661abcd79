"""What is measured: the rows of the table with their budgets, and the figures that fill them.

Used by every measurement (which names rows) and by `table` (which prints them).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TARMAC = "tarmac"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured quantity. `budget` bounds tarmac's figure: from above, or from below if more is better.

    Budgets of times and rates are for the reference machine (`yardstick`); those of amounts hold anywhere.
    """

    key: str
    title: str
    unit: str
    budget: float | None = None
    more_is_better: bool = False

    def bound(self, scale: float) -> float | None:
        """The budget on a machine that is so many times slower than the reference."""
        if self.budget is None or self.unit not in _OF_TIME:
            return self.budget
        return self.budget / scale if self.more_is_better else self.budget * scale

    def kept(self, value: float, scale: float) -> bool:
        """Whether `value` is within the budget."""
        bound = self.bound(scale)
        if bound is None:
            return True
        return value >= bound if self.more_is_better else value <= bound

    def ratio(self, own: float, peer: float) -> float:
        """How many times better `own` is than `peer`."""
        return own / peer if self.more_is_better else peer / own


_OF_TIME = frozenset({"ms", "s", "runs/s"})

ROWS = (
    Row(key="submit_p50", title="submit, durable: p50", unit="ms", budget=3),
    Row(key="submit_p99", title="submit, durable: p99", unit="ms"),
    Row(
        key="submit_rate", title="submit, 50 clients at once", unit="runs/s", budget=600, more_is_better=True
    ),
    Row(key="batch_rate", title="submit, 100 at a time", unit="runs/s", budget=3000, more_is_better=True),
    Row(key="command", title="submit by command line: p50", unit="ms", budget=100),
    Row(key="first", title="the first run from nothing, by command line", unit="ms", budget=1000),
    Row(key="start_p50", title="submit to the worker's first instruction: p50", unit="ms", budget=12),
    Row(key="start_p99", title="submit to the worker's first instruction: p99", unit="ms", budget=40),
    Row(key="drain", title="drain of no-op runs", unit="runs/s", budget=300, more_is_better=True),
    Row(key="page", title="page of 50 runs, server side", unit="ms", budget=5),
    Row(key="list", title="list of 10,000 runs, server side", unit="ms", budget=40),
    Row(key="queue", title="queue with 100,000 queued", unit="ms", budget=200),
    Row(key="why", title="why with 100,000 queued", unit="ms", budget=200),
    Row(key="memory", title="server memory with 100,000 queued", unit="MB", budget=250),
    Row(key="lag_p50", title="follower's lag: p50", unit="ms", budget=25),
    Row(key="lag_p99", title="follower's lag: p99", unit="ms", budget=60),
    Row(key="recovery", title="recovery after kill -9 with 10,000 queued", unit="s", budget=1),
    Row(key="lost", title="runs lost or started twice by that", unit="runs", budget=0),
    Row(key="help", title="--help", unit="ms", budget=60),
)

Measure = Callable[[], Mapping[str, float]]
"""Measures once; row keys to values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """Something measured: tarmac or a peer. `absent` says why it cannot be measured here, if so."""

    name: str
    measures: Sequence[Measure] = ()
    absent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """The median of several measurements of one row on one system."""

    row: str
    system: str
    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


ENOUGH_FOR_P99 = 100
"""Of fewer samples, a p99 would be no more than the slowest of them."""


def spread(key: str, seconds: Sequence[float]) -> dict[str, float]:
    """The row `key`_p50 and, of enough samples, `key`_p99, in milliseconds."""
    shares = (50, 99) if len(seconds) >= ENOUGH_FOR_P99 else (50,)
    return {f"{key}_p{share}": percentile(seconds, share / 100) * 1000 for share in shares}
