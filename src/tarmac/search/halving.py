"""Asynchronous successive halving that stops trials which are not among the best of their rung.

Used by `searching`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tarmac.search.moves import Stop, TrialEnd
from tarmac.search.ranking import Ranking
from tarmac.search.rungs import Bracket
from tarmac.search.steps import Begin, Step

WORST = sys.float_info.max
"""The metric of a failed trial."""


class StoppingHalving:
    """One bracket. Each rung has its metrics, best first, with their trials."""

    def __init__(self, bracket: Bracket, divisor: float) -> None:
        self.trials = bracket.max_trials
        self._bracket = bracket
        self._divisor = divisor
        self._rungs = [Ranking() for _ in bracket.lengths]
        self._rung_of: dict[int, int] = {}
        self._requested = 0
        self._invalid = 0

    def begin(self) -> list[Step]:
        return [step for _ in range(self._bracket.concurrent) for step in self._next()]

    def begun(self, trial: int, _bracket: int, /) -> None:
        self._rung_of[trial] = 0

    def validation(self, trial: int, length: float, metric: float, /) -> list[Step]:
        if self._goes_on(trial, length, metric):
            return []
        return [Stop(trial), *self._next()]

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> list[Step]:
        rung = self._rung_of.pop(trial)
        if how is TrialEnd.INVALID:
            self._invalid += 1
            for ranked in self._rungs[: rung + 1]:
                ranked.remove(trial)
            return self._next()
        if closed:
            return []
        if how is not TrialEnd.COMPLETED:
            self._rungs[rung].insert(WORST, trial, before_equals=True)
        return self._next()

    @property
    def state(self) -> dict[str, Any]:
        return {
            "rungs": [ranked.state for ranked in self._rungs],
            "rung_of": sorted(self._rung_of.items()),
            "requested": self._requested,
            "invalid": self._invalid,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for ranked, kept in zip(self._rungs, state["rungs"], strict=True):
            ranked.restore(kept)
        self._rung_of = dict(state["rung_of"])
        self._requested, self._invalid = state["requested"], state["invalid"]

    def _next(self) -> list[Step]:
        if self._requested - self._invalid >= self.trials:
            return []
        self._requested += 1
        return [Begin()]

    def _goes_on(self, trial: int, length: float, metric: float) -> bool:
        top = len(self._rungs) - 1
        for rung in range(self._rung_of[trial], top + 1):
            self._rung_of[trial] = rung
            if length < self._bracket.lengths[rung]:
                return True
            place = self._rungs[rung].insert(metric, trial, before_equals=True)
            if rung == top or place >= max(int(len(self._rungs[rung]) / self._divisor), 1):
                return False
        return True
