"""A search under way: trials begin, go on or end early, and its state is all there is (D10)."""

from __future__ import annotations

import heapq
import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec
from tarmac.search.moves import Create, Ended, Finish, GoOn, Operation, Stop, TrialEnd, Validation, Wait
from tarmac.search.searching import Search

RATE = ParameterRange(path=("lr",), kind=RangeKind.LOG, low=-5.0, high=-1.0)


def asha(**more: Any) -> SearchSpec:
    values: dict[str, Any] = {"max_trials": 9, "max_concurrent_trials": 3, "max_time": 9, "divisor": 3.0}
    return SearchSpec(method=SearchMethod.ASHA, metric="loss", space=(RATE,), **(values | more))


def kinds(operations: list[Operation]) -> list[str]:
    return [type(operation).__name__ for operation in operations]


class Play:
    """Trials that really go through their steps, one step of one trial after another, in a fixed order."""

    def __init__(self, spec: SearchSpec, loss: Callable[[dict[str, Any], int], float]) -> None:
        self.spec = spec
        self.loss = loss
        self.search = Search(spec)
        self.created: dict[int, Create] = {}
        self.length: dict[int, int] = {}
        self.stopped: set[int] = set()
        self.finish: Finish | None = None
        self.queue: list[tuple[int, int]] = []
        self.turn = 0
        self.waiting: set[int] = set()

    def run(self, *, restore: bool = False) -> Play:
        self.carry_out(self.search.begin())
        while self.queue:
            _, trial = heapq.heappop(self.queue)
            step = self.length[trial] = self.length[trial] + 1
            loss = self.loss(dict(self.created[trial].parameters), step)
            self.tell(Validation(trial, step, loss), restore)
            if trial in self.stopped:
                self.tell(Ended(trial, TrialEnd.STOPPED), restore)
            elif step == (self.spec.max_time or 5) and not self.spec.promotion:
                self.tell(Ended(trial, TrialEnd.COMPLETED), restore)
            elif not self.waits(trial):
                self.later(trial)
        return self

    def waits(self, trial: int) -> bool:
        return trial in self.waiting

    def later(self, trial: int) -> None:
        self.turn += 1
        heapq.heappush(self.queue, (self.turn, trial))

    def tell(self, event: Validation | Ended, restore: bool) -> None:
        if restore:
            self.search = Search(self.spec, json.loads(json.dumps(self.search.state)))
        self.carry_out(self.search.handle(event))

    def carry_out(self, operations: list[Operation]) -> None:
        for operation in operations:
            match operation:
                case Create(trial=trial):
                    assert trial not in self.created, "no trial is begun twice"
                    self.created[trial] = operation
                    self.length[trial] = 0
                    self.later(trial)
                case Wait(trial=trial):
                    self.waiting = self.waiting | {trial}
                case GoOn(trial=trial):
                    self.waiting = self.waiting - {trial}
                    if not any(entry[1] == trial for entry in self.queue):
                        self.later(trial)
                case Stop(trial=trial):
                    self.stopped.add(trial)
                    if trial in self.waiting:
                        self.waiting = self.waiting - {trial}
                        self.carry_out(self.search.handle(Ended(trial, TrialEnd.STOPPED)))
                case Finish():
                    assert self.finish is None
                    self.finish = operation


def by_rate(parameters: dict[str, Any], step: int) -> float:
    return abs(math.log10(parameters["lr"]) + 3.0) + 1.0 / step


@pytest.mark.parametrize(
    "spec",
    [
        asha(),
        asha(promotion=True),
        asha(max_trials=30, max_concurrent_trials=0),
        SearchSpec(method=SearchMethod.RANDOM, space=(RATE,), max_trials=12, max_concurrent_trials=4),
        SearchSpec(
            method=SearchMethod.ADAPTIVE_ASHA, space=(RATE,), max_trials=40, max_time=81, divisor=3.0, seed=5
        ),
    ],
)
def test_a_restored_search_goes_on_as_if_nothing_had_happened(spec: SearchSpec) -> None:
    """Its state after any event is all there is."""
    whole, restored = Play(spec, by_rate).run(), Play(spec, by_rate).run(restore=True)
    assert whole.created == restored.created
    assert whole.length == restored.length
    assert whole.finish == restored.finish == Finish(TrialEnd.COMPLETED)
    assert len(whole.created) == spec.max_trials


def test_stopping_keeps_the_best_of_each_rung() -> None:
    play = Play(asha(max_trials=27, max_concurrent_trials=27), by_rate).run()
    ranked = sorted(play.created, key=lambda trial: by_rate(dict(play.created[trial].parameters), 1))
    assert play.length[ranked[0]] == 9, "the best goes to the end"
    assert sum(play.length.values()) < 27 * 9 / 2
    assert min(play.length.values()) == 1


def test_a_trial_goes_on_only_among_the_best_third() -> None:
    search = Search(asha())
    search.begin()
    assert kinds(search.handle(Validation(1, 1, 5.0))) == []
    assert kinds(search.handle(Validation(2, 1, 6.0))) == ["Stop", "Create"]
    assert kinds(search.handle(Validation(3, 1, 4.0))) == []
    assert kinds(search.handle(Validation(2, 2, 0.0))) == [], "a trial that was ended says nothing more"


def test_a_metric_that_is_maximised() -> None:
    search = Search(asha(smaller_is_better=False))
    search.begin()
    assert kinds(search.handle(Validation(1, 1, 5.0))) == []
    assert kinds(search.handle(Validation(2, 1, 6.0))) == []
    assert kinds(search.handle(Validation(3, 1, math.nan))) == ["Stop", "Create"]


def test_promotion_rests_a_trial_until_others_are_worse() -> None:
    search = Search(asha(promotion=True))
    first = search.begin()
    assert [operation.length for operation in first if isinstance(operation, Create)] == [1, 1, 1]
    assert kinds(search.handle(Validation(1, 1, 5.0))) == ["Wait", "Create"]
    assert kinds(search.handle(Validation(2, 1, 6.0))) == ["Wait", "Create"]
    assert search.handle(Validation(3, 1, 7.0)) == [Wait(3), GoOn(1, 3)]


def test_a_trial_that_is_promoted_to_the_same_length_is_ranked_there_at_once() -> None:
    """Rungs of a short search may have one length; no trial reports it twice."""
    search = Search(asha(promotion=True, num_rungs=3, max_time=2, max_concurrent_trials=0))
    trials = [each.trial for each in search.begin() if isinstance(each, Create)]
    assert [kinds(search.handle(Validation(trial, 1, trial + 0.5))) for trial in trials[:2]] == [["Wait"]] * 2
    assert search.handle(Validation(3, 1, 3.5)) == [Wait(3)], "trial 1 is in the second rung, alone"
    for trial in trials[3:8]:
        assert kinds(search.handle(Validation(trial, 1, trial + 0.5))) == ["Wait"]
    found = search.handle(Validation(9, 1, 9.5))
    assert found[:2] == [Wait(9), GoOn(1, 2)], "three are in the second rung: the best of them goes on"
    assert not any(isinstance(each, Stop) and each.trial == 1 for each in found)


def test_a_failed_trial_counts_as_the_worst_and_another_begins() -> None:
    search = Search(asha())
    search.begin()
    assert kinds(search.handle(Ended(1, TrialEnd.FAILED))) == ["Create"]
    assert kinds(search.handle(Validation(2, 1, 6.0))) == [], "it is better than one that failed"


@pytest.mark.parametrize("spec", [asha(), asha(promotion=True)])
def test_an_invalid_trial_does_not_count(spec: SearchSpec) -> None:
    search = Search(spec)
    search.begin()
    created = 3
    for trial in range(1, 40):
        operations = search.handle(Ended(trial, TrialEnd.INVALID))
        assert kinds(operations) == ["Create"]
        created += 1
    assert search.progress == 0.0


@pytest.mark.parametrize(
    ("first", "second", "end"),
    [
        (TrialEnd.FAILED, TrialEnd.FAILED, TrialEnd.FAILED),
        (TrialEnd.STOPPED, TrialEnd.STOPPED, TrialEnd.STOPPED),
        (TrialEnd.FAILED, TrialEnd.STOPPED, TrialEnd.COMPLETED),
        (TrialEnd.FAILED, TrialEnd.COMPLETED, TrialEnd.COMPLETED),
    ],
)
def test_a_search_ends_as_its_trials_where_all_end_alike(
    first: TrialEnd, second: TrialEnd, end: TrialEnd
) -> None:
    search = Search(SearchSpec(method=SearchMethod.RANDOM, space=(RATE,), max_trials=2))
    search.begin()
    assert search.handle(Ended(1, first)) == []
    assert search.handle(Ended(2, second)) == [Finish(end)]
    assert search.handle(Ended(2, second)) == []


def test_a_grid_tries_every_point_once() -> None:
    spec = SearchSpec(
        method=SearchMethod.GRID,
        max_concurrent_trials=2,
        space=(
            ParameterRange(path=("b",), kind=RangeKind.CHOICE, values=("x", "y")),
            ParameterRange(path=("a", "n"), kind=RangeKind.INT, low=1, high=9, count=3),
            ParameterRange(path=("r",), kind=RangeKind.LOG, low=-2.0, high=0.0, count=3),
            ParameterRange(path=("u",), kind=RangeKind.UNIFORM, low=0.0, high=1.0, count=1),
        ),
    )
    play = Play(spec, lambda _parameters, _step: 0.0).run()
    tried = [play.created[trial].parameters for trial in sorted(play.created)]
    assert len(tried) == 18
    assert len({json.dumps(each) for each in tried}) == 18
    assert tried[0] == {"a": {"n": 1}, "b": "x", "r": 0.01, "u": 0.5}
    assert tried[-1] == {"a": {"n": 9}, "b": "y", "r": 1.0, "u": 0.5}


def test_a_single_search_has_one_trial() -> None:
    play = Play(SearchSpec(method=SearchMethod.SINGLE, space=(RATE,)), by_rate).run()
    assert list(play.created) == [1]


@pytest.mark.parametrize("promotion", [False, True])
def test_the_state_of_many_trials_is_small(promotion: bool) -> None:
    """It is written at every decision, so it holds less than 64 bytes for each trial."""
    play = Play(asha(max_trials=200, max_concurrent_trials=20, promotion=promotion), by_rate).run()
    assert play.finish is not None
    assert len(json.dumps(play.search.state)) < 64 * 200
