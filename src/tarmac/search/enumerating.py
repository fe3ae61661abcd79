"""The methods that end no trial early: single, random, grid. Each trial that ends is followed by the next.

Used by `searching`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.search.moves import TrialEnd
from tarmac.search.steps import Begin, Step


class Enumerating:
    """A fixed number of trials, `concurrent` of them at once.

    `replaces`: an invalid trial does not count, and another takes its place (random, not grid).
    """

    def __init__(self, trials: int, *, concurrent: int, length: int | None, replaces: bool) -> None:
        self.trials = trials
        self._concurrent = min(concurrent or trials, trials)
        self._length = length
        self._replaces = replaces
        self._left = trials

    def begin(self) -> list[Step]:
        return [step for _ in range(self._concurrent) for step in self._next()]

    def begun(self, _trial: int, _bracket: int, /) -> None:
        """Does nothing: the method keeps no state of single trials."""

    def validation(self, _trial: int, _length: float, _metric: float, /) -> list[Step]:
        return []

    def ended(self, _trial: int, how: TrialEnd, _closed: bool, /) -> list[Step]:
        if how is TrialEnd.INVALID and self._replaces:
            self._left += 1
        return self._next()

    @property
    def state(self) -> dict[str, Any]:
        return {"left": self._left}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._left = state["left"]

    def _next(self) -> list[Step]:
        if self._left <= 0:
            return []
        self._left -= 1
        return [Begin(length=self._length)]
