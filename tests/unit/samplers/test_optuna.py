"""Optuna behind the port of searches (D10): replayed from what is kept, better than chance."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tarmac.model.errors import InvalidInput
from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec
from tarmac.samplers import searcher_of
from tarmac.search.moves import Create, Ended, Finish, Operation, Stop, TrialEnd, Validation

STEPS = 20
SPACE = (
    ParameterRange(path=("lr",), kind=RangeKind.LOG, low=-5.0, high=-1.0),
    ParameterRange(path=("deep", "layers"), kind=RangeKind.INT, low=1, high=8),
    ParameterRange(path=("deep", "act"), kind=RangeKind.CHOICE, values=("relu", ["gelu", 1])),
    ParameterRange(path=("drop",), kind=RangeKind.UNIFORM, low=0.0, high=0.5),
    ParameterRange(path=("width",), kind=RangeKind.CONST, values=(64,)),
)


def search(method: SearchMethod, pruner: str | None = None, **more: Any) -> SearchSpec:
    values: dict[str, Any] = {"max_trials": 40, "max_concurrent_trials": 4, "max_time": STEPS, "space": SPACE}
    return SearchSpec(method=method, metric="loss", pruner=pruner, **(values | more))


def loss(parameters: dict[str, Any], step: int) -> float:
    """Best at lr 1e-3, four layers, relu, no dropout; falls with every step."""
    deep = parameters["deep"]
    far = abs(math.log10(parameters["lr"]) + 3.0) + abs(deep["layers"] - 4) / 4 + parameters["drop"]
    return far + (deep["act"] != "relu") + 1.0 / step


class Play:
    """Trials that go on in turns, one step each; some fail, some are invalid."""

    def __init__(
        self, spec: SearchSpec, *, restore: bool = False, loss: Callable[[Any, int], float] = loss
    ) -> None:
        self.spec = spec
        self.restore = restore
        self.loss = loss
        self.created: dict[int, Create] = {}
        self.steps: dict[int, int] = {}
        self.closed: set[int] = set()
        self.best = math.inf
        self.finished = False
        self.searcher = searcher_of(spec, None)
        self.live: list[int] = []
        self.carry_out(self.searcher.begin())
        while self.live:
            self.turn(self.live.pop(0))

    def turn(self, trial: int) -> None:
        step = self.steps[trial] = self.steps[trial] + 1
        if trial % 11 == 0:
            self.tell(Ended(trial, TrialEnd.INVALID if trial % 2 else TrialEnd.FAILED))
            return
        found = self.loss(self.created[trial].parameters, step)
        self.best = min(self.best, found)
        self.tell(Validation(trial, step, math.nan if trial == 5 else found))
        if trial in self.closed:
            self.tell(Ended(trial, TrialEnd.STOPPED))
        elif step == self.spec.max_time:
            self.tell(Ended(trial, TrialEnd.COMPLETED))
        else:
            self.live.append(trial)

    def tell(self, event: Validation | Ended) -> None:
        if self.restore:
            kept = json.dumps(self.searcher.state)
            self.searcher = searcher_of(self.spec, json.loads(kept))
            assert json.dumps(self.searcher.state) == kept
        self.carry_out(self.searcher.handle(event))

    def carry_out(self, operations: list[Operation]) -> None:
        for operation in operations:
            match operation:
                case Create(trial=trial):
                    self.created[trial] = operation
                    self.steps[trial] = 0
                    self.live.append(trial)
                case Stop(trial=trial):
                    self.closed.add(trial)
                case Finish(end=end):
                    assert end is TrialEnd.COMPLETED
                    self.finished = True


@pytest.mark.parametrize(
    ("method", "pruner"),
    [
        (SearchMethod.TPE, None),
        pytest.param(SearchMethod.CMA_ES, None, marks=pytest.mark.heavy),
        pytest.param(SearchMethod.TPE, "median", marks=pytest.mark.heavy),
        pytest.param(SearchMethod.CMA_ES, "percentile", marks=pytest.mark.heavy),
        (SearchMethod.RANDOM, "median"),
    ],
)
def test_a_search_that_is_restored_after_every_event_draws_the_same(
    method: SearchMethod, pruner: str | None
) -> None:
    """As after a `kill -9` at any write: what was kept with the last event is all there is."""
    spec = search(method, pruner, max_trials=18, max_time=8)
    whole, restored = Play(spec), Play(spec, restore=True)
    assert whole.created == restored.created
    assert whole.steps == restored.steps
    assert whole.finished
    assert restored.finished
    assert len(whole.created) >= 18 + 1, "the invalid one was replaced"


@pytest.mark.parametrize("method", [SearchMethod.TPE, SearchMethod.CMA_ES, SearchMethod.RANDOM])
def test_a_pruner_ends_trials_that_do_worse_at_the_same_length(method: SearchMethod) -> None:
    play = Play(search(method, "median"))
    assert len(play.closed) >= 8
    lengths = {play.steps[trial] for trial in play.closed}
    assert min(lengths) < STEPS / 2
    kept = [trial for trial, step in play.steps.items() if step == STEPS]
    final = {trial: loss(play.created[trial].parameters, STEPS) for trial in play.created}
    assert min(final, key=final.__getitem__) in kept, "the best was pruned"


def test_values_are_of_their_ranges() -> None:
    for method in (SearchMethod.TPE, SearchMethod.CMA_ES):
        for create in Play(search(method)).created.values():
            parameters = create.parameters
            assert 1e-5 <= parameters["lr"] <= 1e-1
            assert parameters["deep"]["layers"] in range(1, 9)
            assert isinstance(parameters["deep"]["layers"], int)
            assert parameters["deep"]["act"] in ("relu", ["gelu", 1])
            assert 0.0 <= parameters["drop"] <= 0.5
            assert parameters["width"] == 64


@pytest.mark.parametrize("method", [SearchMethod.TPE, SearchMethod.CMA_ES])
def test_samplers_come_closer_than_chance(method: SearchMethod) -> None:
    """The sum of squares around a point: ten times nearer than random of the same 150 trials."""
    space = tuple(
        ParameterRange(path=(name,), kind=RangeKind.UNIFORM, low=-5.0, high=5.0) for name in ("x", "y", "z")
    )

    def bowl(parameters: Any, _step: int) -> float:
        return float(sum((value - 1.5) ** 2 for value in parameters.values()))

    one: dict[str, Any] = {"space": space, "max_time": 1, "max_trials": 150}
    chance = Play(search(SearchMethod.RANDOM, **one), loss=bowl).best
    assert Play(search(method, **one), loss=bowl).best < chance / 10


def test_more_is_better_where_the_goal_says_so() -> None:
    spec = search(SearchMethod.TPE, max_trials=60, max_time=1, smaller_is_better=False)
    play = Play(spec, loss=lambda parameters, _step: parameters["drop"])
    late = [play.created[trial].parameters["drop"] for trial in sorted(play.created)[-20:]]
    assert sum(late) / len(late) > 0.4


@pytest.mark.parametrize(
    ("spec", "module"),
    [
        (search(SearchMethod.TPE), "optuna"),
        (search(SearchMethod.CMA_ES), "cmaes"),
        (search(SearchMethod.RANDOM, "median"), "optuna"),
    ],
)
def test_without_the_package_the_search_is_refused_with_what_to_install(
    spec: SearchSpec, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidInput, match=module) as caught:
        searcher_of(spec, None)
    assert f"install {module} for {sys.executable}" in str(caught.value.hint)
