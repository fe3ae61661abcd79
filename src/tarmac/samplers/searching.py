"""A search whose parameters come from Optuna, whose trials it may prune, or both. Made by `searcher_of`."""

from collections.abc import Mapping
from typing import Any

from tarmac.model.search import SAMPLERS, RangeKind, SearchSpec, nested
from tarmac.samplers.history import History
from tarmac.search import Method, RandomSampler, Sampler, Search, Stop, TrialEnd
from tarmac.search.moves import Step
from tarmac.search.searching import method_of
from tarmac.search.space import power

POINTS = 10
"""The number of places of a trial that a pruner checks: the state of a search keeps a metric for each."""


def optuna_search(spec: SearchSpec, state: Mapping[str, Any] | None) -> Search:
    """Begin such a search, or continue one."""
    history = History(spec)
    drawn = RandomSampler(spec) if spec.method not in SAMPLERS else None
    method = method_of(spec)
    return Search(
        spec,
        state,
        sampler=LearningSampler(spec, history, drawn),
        method=PruningMethod(method, history) if spec.pruner is not None else method,
    )


class LearningSampler:
    """Keeps the history of a search, and draws from it, or at random if only a pruner learns."""

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

    def validation(self, trial: int, length: float, metric: float, /) -> None:
        longest = self._spec.max_time
        point = int(length * POINTS / longest) if longest else 0
        self._history.report(trial, min(point, POINTS) if self._spec.pruner is not None else 0, metric)

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> None:
        self._history.end(trial, TrialEnd.STOPPED if closed else how)

    @property
    def state(self) -> dict[str, Any]:
        return self._history.state | (self._drawn.state if self._drawn is not None else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        self._history.restore(state)
        if self._drawn is not None:
            self._drawn.restore(state)


class PruningMethod:
    """A method that also ends trials early at the request of the pruner."""

    def __init__(self, method: Method, history: History) -> None:
        self._method = method
        self._history = history

    @property
    def trials(self) -> int:
        return self._method.trials

    def begin(self) -> list[Step]:
        return self._method.begin()

    def begun(self, trial: int, bracket: int, /) -> None:
        self._method.begun(trial, bracket)

    def validation(self, trial: int, length: float, metric: float, /) -> list[Step]:
        if self._history.is_pruned(trial):
            return [Stop(trial)]
        return self._method.validation(trial, length, metric)

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> list[Step]:
        return self._method.ended(trial, how, closed)

    @property
    def state(self) -> dict[str, Any]:
        return self._method.state

    def restore(self, state: Mapping[str, Any]) -> None:
        self._method.restore(state)
