"""A search whose parameters come from Optuna, whose trials it may prune, or both. Made by `searcher_of`."""

from collections.abc import Mapping
from typing import Any

from tarmac.model.search import SAMPLERS, RangeKind, SearchSpec, nested
from tarmac.samplers.history import History
from tarmac.search.moves import Sampler, TrialEnd
from tarmac.search.searching import Search
from tarmac.search.space import RandomSampler, power

POINTS = 10
"""The number of places of a trial that a pruner checks: the state of a search keeps a metric for each."""


def optuna_search(spec: SearchSpec, state: Mapping[str, Any] | None) -> Search:
    """Begin such a search, or continue one."""
    drawn = RandomSampler(spec) if spec.method not in SAMPLERS else None
    return Search(spec, state, sampler=LearningSampler(spec, History(spec), drawn))


class LearningSampler:
    """Keeps the history of a search, draws from it (at random if only a pruner learns), and prunes trials."""

    def __init__(self, spec: SearchSpec, history: History, drawn: Sampler | None) -> None:
        self._spec = spec
        self._history = history
        self._drawn = drawn

    def draw(self, trial: int) -> tuple[dict[str, Any], int]:
        if self._drawn is not None:
            self._history.begin()
            return self._drawn.draw(trial)
        values, seed = self._history.begin()
        found: dict[tuple[str, ...], Any] = {}
        for item in sorted(self._spec.space, key=lambda item: item.path):
            value = values.get(item.name)
            match item.kind:
                case RangeKind.CONST:
                    found[item.path] = item.values[0]
                case RangeKind.CHOICE:
                    found[item.path] = item.values[int(value or 0)]
                case RangeKind.LOG:
                    found[item.path] = power(item.base, value or 0.0)
                case RangeKind.INT:
                    found[item.path] = int(value or 0)
                case RangeKind.UNIFORM:
                    found[item.path] = value
        return nested(found), seed

    def validation(self, trial: int, length: float, metric: float, /) -> bool:
        longest, prunes = self._spec.max_time, self._spec.pruner is not None
        point = int(length * POINTS / longest) if longest else 0
        self._history.report(trial, min(point, POINTS) if prunes else 0, metric)
        return prunes and self._history.is_pruned(trial)

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> None:
        self._history.end(trial, TrialEnd.STOPPED if closed else how)

    @property
    def state(self) -> dict[str, Any]:
        return self._history.state | (self._drawn.state if self._drawn is not None else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        self._history.restore(state)
        if self._drawn is not None:
            self._drawn.restore(state)
