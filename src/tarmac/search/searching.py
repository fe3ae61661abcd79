"""`Search`: a search in progress, pure and restorable. Made by `control` for each experiment.

It numbers trials, draws their parameters, and reports the end of the search; its method decides which trial
begins, continues or ends: a fixed number of trials, or one or several brackets of successive halving
(`halving`). It reads no clock, and no randomness but the seed of its spec.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.model.search import HALVING, SearchMethod, SearchSpec
from tarmac.search import moves
from tarmac.search.halving import WORST, PromotingHalving, StoppingHalving
from tarmac.search.moves import Begin, Ended, Event, Method, Operation, Sampler, Step, Stop, TrialEnd
from tarmac.search.rungs import brackets_of, trials_of
from tarmac.search.space import RandomSampler


class Search:
    """A search in progress. Pure: equal events give equal operations, also after `state` was restored."""

    def __init__(
        self, spec: SearchSpec, state: Mapping[str, Any] | None = None, *, sampler: Sampler | None = None
    ) -> None:
        """Begin a search, or continue one from its `state`, with its own sampler or another."""
        self._spec = spec
        self._sampler = sampler or RandomSampler(spec)
        self._brackets = methods_of(spec)
        self._bracket_of: dict[int, int] = {}
        self._created: int = state["created"] if state else 0
        self._open: set[int] = set(state["open"]) if state else set()
        self._closing: set[int] = set(state["closing"]) if state else set()
        self._ends: dict[int, TrialEnd] = {}
        self._valid = 0
        if state:
            self._ends = {trial: how for how in TrialEnd for trial in moves.unpack_trials(state["ends"][how])}
            self._valid = sum(self._counts(trial) for trial in self._ends)
            self._sampler.restore(state)
            self._bracket_of = moves.unpack_pairs(state["bracket_of"])
            for bracket, kept in zip(self._brackets, state["brackets"], strict=True):
                bracket.restore(kept)

    def begin(self) -> list[Operation]:
        """The first operations; called once."""
        begun = [self._carried_out(at, bracket.begin()) for at, bracket in enumerate(self._brackets)]
        return [operation for operations in begun for operation in operations]

    def handle(self, event: Event) -> list[Operation]:
        """The operations after an event; an event of a trial that has ended is ignored."""
        if event.trial not in self._open:
            return []
        if isinstance(event, moves.Validation):
            if event.trial in self._closing:
                return []
            metric = event.metric if self._spec.smaller_is_better else -event.metric
            metric = WORST if math.isnan(metric) else max(min(metric, WORST), -WORST)
            at = self._bracket_of.get(event.trial, 0)
            if self._sampler.validation(event.trial, event.length, metric):
                return self._carried_out(at, [Stop(event.trial)])
            return self._carried_out(at, self._brackets[at].validation(event.trial, event.length, metric))
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
            "brackets": [bracket.state for bracket in self._brackets],
            "bracket_of": moves.pack_pairs(self._bracket_of),
        }

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        return min(self._valid / max(sum(bracket.trials for bracket in self._brackets), 1), 1.0)

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
        at = self._bracket_of.get(event.trial, 0)
        steps = self._brackets[at].ended(event.trial, event.how, closed) if not again else []
        operations = self._carried_out(at, steps)
        if not self._open:
            ends = set(self._ends.values())
            alike = len(ends) == 1 and TrialEnd.INVALID not in ends
            operations.append(moves.Finish(*ends) if alike else moves.Finish())
        return operations

    def _carried_out(self, at: int, steps: Sequence[Step]) -> list[Operation]:
        """The operations of these steps of a bracket."""
        return [self._operation(at, step) for step in steps]

    def _operation(self, at: int, step: Step) -> Operation:
        match step:
            case Begin(length=length):
                self._created += 1
                trial = self._created
                self._open.add(trial)
                if at:
                    self._bracket_of[trial] = at
                self._brackets[at].begun(trial)
                parameters, seed = self._sampler.draw(trial)
                return moves.Create(trial, parameters, seed, length)
            case Stop(trial=trial):
                self._closing.add(trial)
        return step


def methods_of(spec: SearchSpec) -> list[Method]:
    """The method of a search, or one for each bracket.

    TPE and CMA-ES only draw parameters: their trials end by themselves.
    """
    if spec.method in HALVING:
        kind = PromotingHalving if spec.promotion else StoppingHalving
        return [kind(bracket, spec.divisor) for bracket in brackets_of(spec)]
    trials, replaces = trials_of(spec), spec.method is not SearchMethod.GRID
    most = min(spec.max_concurrent_trials or trials, trials)
    return [Method(trials, concurrent=most, length=spec.max_time, replaces=replaces)]
