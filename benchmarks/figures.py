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
    """One measured quantity. `budget` bounds tarmac's figure: from above, or from below if more is better."""

    key: str
    title: str
    unit: str
    budget: float | None = None
    more_is_better: bool = False

    def kept(self, value: float) -> bool:
        """Whether `value` is within the budget."""
        if self.budget is None:
            return True
        return value >= self.budget if self.more_is_better else value <= self.budget

    def ratio(self, own: float, peer: float) -> float:
        """How many times better `own` is than `peer`."""
        return own / peer if self.more_is_better else peer / own


ROWS = (
    Row(key="submit_p50", title="submit, durable: p50", unit="ms", budget=10),
    Row(key="submit_p99", title="submit, durable: p99", unit="ms"),
    Row(key="command", title="submit by command line: p50", unit="ms"),
    Row(key="submit_rate", title="submit, 4 clients at once", unit="runs/s", more_is_better=True),
    Row(key="batch_rate", title="submit, 100 at a time", unit="runs/s", budget=500, more_is_better=True),
    Row(key="start_p50", title="submit to the worker's first instruction: p50", unit="ms", budget=60),
    Row(key="start_p99", title="submit to the worker's first instruction: p99", unit="ms", budget=300),
    Row(key="drain", title="drain of no-op runs", unit="runs/s", budget=150, more_is_better=True),
    Row(key="list", title="list of 10,000 runs, server side", unit="ms", budget=100),
    Row(key="lag_p50", title="follower's lag: p50", unit="ms"),
    Row(key="lag_p99", title="follower's lag: p99", unit="ms", budget=200),
    Row(key="recovery", title="recovery after kill -9 with 10,000 queued", unit="s", budget=2),
    Row(key="lost", title="runs lost or started twice by that", unit="runs", budget=0),
    Row(key="help", title="--help", unit="ms", budget=80),
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


def spread(key: str, seconds: Sequence[float]) -> dict[str, float]:
    """The rows `key`_p50 and `key`_p99, in milliseconds."""
    return {f"{key}_p{share}": percentile(seconds, share / 100) * 1000 for share in (50, 99)}
