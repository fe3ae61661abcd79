"""The metrics of a rung, best first, with their trials. Used by both ways of halving."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from tarmac.search.packed import pack_numbers, pack_trials, unpack_numbers, unpack_trials


class Ranking:
    """Metrics in order, the smallest first, and their trials."""

    def __init__(self) -> None:
        self._metrics: list[float] = []
        self._trials: list[int] = []

    def __len__(self) -> int:
        return len(self._trials)

    def __getitem__(self, place: int) -> int:
        """The trial at a place."""
        return self._trials[place]

    def metric_of(self, trial: int) -> float:
        """The metric of a trial that is ranked here."""
        return self._metrics[self._trials.index(trial)]

    def insert(self, metric: float, trial: int, *, before_equals: bool) -> int:
        """Rank a metric, before or after equal ones, and return its place."""
        place = (bisect_left if before_equals else bisect_right)(self._metrics, metric)
        self._metrics.insert(place, metric)
        self._trials.insert(place, trial)
        return place

    def remove(self, trial: int) -> None:
        """Remove the metric of a trial, if it has one here."""
        if trial in self._trials:
            place = self._trials.index(trial)
            del self._metrics[place], self._trials[place]

    def ordered(self, trials: set[int]) -> list[int]:
        """Those of the given trials that are ranked here, best first."""
        return [trial for trial in self._trials if trial in trials] if trials else []

    @property
    def state(self) -> list[str]:
        """The ranking in short JSON."""
        return [pack_numbers(self._metrics), pack_trials(self._trials)]

    def restore(self, state: Sequence[str]) -> None:
        """Restore a `state`."""
        self._metrics, self._trials = unpack_numbers(state[0]), unpack_trials(state[1])
