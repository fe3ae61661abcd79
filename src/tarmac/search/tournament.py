"""Several brackets side by side, each with trials of its own: an adaptive search. Made by `searching`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tarmac.search.moves import TrialEnd
from tarmac.search.packed import pack_trials, unpack_trials
from tarmac.search.steps import Begin, Method, Step


class Tournament:
    """Passes events to the bracket of each trial."""

    def __init__(self, brackets: Sequence[Method]) -> None:
        self._brackets = brackets
        self._bracket_of: dict[int, int] = {}

    @property
    def trials(self) -> int:
        return sum(bracket.trials for bracket in self._brackets)

    def begin(self) -> list[Step]:
        return [
            step for at, bracket in enumerate(self._brackets) for step in _of_bracket(bracket.begin(), at)
        ]

    def begun(self, trial: int, bracket: int, /) -> None:
        self._bracket_of[trial] = bracket
        self._brackets[bracket].begun(trial, 0)

    def validation(self, trial: int, length: float, metric: float, /) -> list[Step]:
        at = self._bracket_of[trial]
        return _of_bracket(self._brackets[at].validation(trial, length, metric), at)

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> list[Step]:
        at = self._bracket_of[trial]
        return _of_bracket(self._brackets[at].ended(trial, how, closed), at)

    @property
    def state(self) -> dict[str, Any]:
        return {
            "brackets": [bracket.state for bracket in self._brackets],
            "bracket_of": [pack_trials(self._bracket_of.keys()), pack_trials(self._bracket_of.values())],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for bracket, kept in zip(self._brackets, state["brackets"], strict=True):
            bracket.restore(kept)
        trials, brackets = state["bracket_of"]
        self._bracket_of = dict(zip(unpack_trials(trials), unpack_trials(brackets), strict=True))


def _of_bracket(steps: Sequence[Step], at: int) -> list[Step]:
    return [replace(step, bracket=at) if isinstance(step, Begin) else step for step in steps]
