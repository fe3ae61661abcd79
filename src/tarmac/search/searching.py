"""`Search`: a search in progress, pure and restorable. Made by `control` for each experiment.

It numbers trials, draws their parameters, and reports the end of the search; its method decides which trial
begins, continues or ends: a fixed number of trials, several brackets, or successive halving (`halving`). It
reads no clock, and no randomness but the seed of its spec.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tarmac.model.search import SearchMethod, SearchSpec
from tarmac.search import moves
from tarmac.search.halving import WORST, PromotingHalving, StoppingHalving
from tarmac.search.moves import Begin, Ended, Event, Method, Operation, Sampler, Step, Stop, TrialEnd
from tarmac.search.rungs import brackets_of
from tarmac.search.space import RandomSampler, grid_size


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
            "bracket_of": moves.pack_pairs(self._bracket_of),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        for bracket, kept in zip(self._brackets, state["brackets"], strict=True):
            bracket.restore(kept)
        self._bracket_of = moves.unpack_pairs(state["bracket_of"])


def _of_bracket(steps: Sequence[Step], at: int) -> list[Step]:
    return [replace(step, bracket=at) if isinstance(step, Begin) else step for step in steps]


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


class Search:
    """A search in progress. Pure: equal events give equal operations, also after `state` was restored."""

    def __init__(
        self,
        spec: SearchSpec,
        state: Mapping[str, Any] | None = None,
        *,
        sampler: Sampler | None = None,
        method: Method | None = None,
    ) -> None:
        """Begin a search, or continue one from its `state`, with its own sampler and method or others."""
        self._spec = spec
        self._sampler = sampler or RandomSampler(spec)
        self._method = method or method_of(spec)
        self._created: int = state["created"] if state else 0
        self._open: set[int] = set(state["open"]) if state else set()
        self._closing: set[int] = set(state["closing"]) if state else set()
        self._ends: dict[int, TrialEnd] = {}
        self._valid = 0
        if state:
            self._ends = {trial: how for how in TrialEnd for trial in moves.unpack_trials(state["ends"][how])}
            self._valid = sum(self._counts(trial) for trial in self._ends)
            self._sampler.restore(state)
            self._method.restore(state["method"])

    def begin(self) -> list[Operation]:
        """The first operations; called once."""
        return self._carried_out(self._method.begin())

    def handle(self, event: Event) -> list[Operation]:
        """The operations after an event; an event of a trial that has ended is ignored."""
        if event.trial not in self._open:
            return []
        if isinstance(event, moves.Validation):
            if event.trial in self._closing:
                return []
            metric = event.metric if self._spec.smaller_is_better else -event.metric
            metric = WORST if math.isnan(metric) else max(min(metric, WORST), -WORST)
            if self._sampler.validation(event.trial, event.length, metric):
                return self._carried_out([Stop(event.trial)])
            return self._carried_out(self._method.validation(event.trial, event.length, metric))
        return self._ended(event)

    def reopen(self, trial: int) -> None:
        """Open a trial again whose end did not count."""
        if trial not in self._open:
            self._valid -= self._counts(trial)
            self._open.add(trial)

    @property
    def state(self) -> Mapping[str, Any]:
        """The whole state, as JSON."""
        by_end: dict[TrialEnd, list[int]] = {how: [] for how in TrialEnd}
        for trial, how in self._ends.items():
            by_end[how].append(trial)
        return {
            **self._sampler.state,
            "created": self._created,
            "open": sorted(self._open),
            "closing": sorted(self._closing),
            "ends": {how.value: moves.pack_trials(trials) for how, trials in by_end.items()},
            "method": self._method.state,
        }

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        return min(self._valid / max(self._method.trials, 1), 1.0)

    def _counts(self, trial: int) -> bool:
        """Whether a trial has ended and counts, which invalid ones do not."""
        return trial not in self._open and self._ends.get(trial, TrialEnd.INVALID) is not TrialEnd.INVALID

    def _ended(self, event: Ended) -> list[Operation]:
        self._open.discard(event.trial)
        closed = event.trial in self._closing
        self._closing.discard(event.trial)
        how = TrialEnd.COMPLETED if closed and event.how is TrialEnd.STOPPED else event.how
        again = event.trial in self._ends
        if not again:
            self._sampler.ended(event.trial, event.how, closed)
        self._ends[event.trial] = how
        self._valid += self._counts(event.trial)
        operations = (
            self._carried_out(self._method.ended(event.trial, event.how, closed)) if not again else []
        )
        if not self._open:
            ends = set(self._ends.values())
            alike = len(ends) == 1 and TrialEnd.INVALID not in ends
            operations.append(moves.Finish(*ends) if alike else moves.Finish())
        return operations

    def _carried_out(self, steps: Sequence[Step]) -> list[Operation]:
        return [operation for step in steps for operation in self._operations(step)]

    def _operations(self, step: Step) -> list[Operation]:
        match step:
            case Begin(length=length, bracket=bracket):
                self._created += 1
                trial = self._created
                self._open.add(trial)
                self._method.begun(trial, bracket)
                parameters, seed = self._sampler.draw(trial)
                return [moves.Create(trial, parameters, seed, length)]
            case Stop(trial=trial):
                self._closing.add(trial)
        return [step]


def method_of(spec: SearchSpec) -> Method:
    """The method of a search. TPE and CMA-ES only draw parameters: their trials end by themselves."""
    most, length = spec.max_concurrent_trials, spec.max_time
    match spec.method:
        case SearchMethod.SINGLE:
            return Enumerating(1, concurrent=1, length=length, replaces=True)
        case SearchMethod.GRID:
            return Enumerating(grid_size(spec), concurrent=most, length=length, replaces=False)
        case SearchMethod.ASHA | SearchMethod.ADAPTIVE_ASHA:
            kind = PromotingHalving if spec.promotion else StoppingHalving
            brackets: list[Method] = [kind(bracket, spec.divisor) for bracket in brackets_of(spec)]
            return brackets[0] if len(brackets) == 1 else Tournament(brackets)
    return Enumerating(spec.max_trials or 1, concurrent=most, length=length, replaces=True)
