"""Asynchronous successive halving in two forms: it stops trials, or promotes them. Used by `searching`.

The stopping form stops a trial that is not among the best at its rung. In the promoting form, for searches
with a `max_length`, each trial rests at its rung until it is among the best.
"""

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.search import moves
from tarmac.search.moves import GoOn, Method, Step, Stop, TrialEnd, Wait, pack_trials, unpack_trials
from tarmac.search.rungs import Bracket


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
        return [moves.pack_numbers(self._metrics), pack_trials(self._trials)]

    def restore(self, state: Sequence[str]) -> None:
        """Restore a `state`."""
        self._metrics, self._trials = moves.unpack_numbers(state[0]), unpack_trials(state[1])


@dataclass(slots=True)
class _Rung:
    """The metrics of a rung with their trials, best first; its promoted trials, and those on their way."""

    ranked: Ranking = field(default_factory=Ranking)
    promoted: set[int] = field(default_factory=set)
    under_way: int = 0


class PromotingHalving(Method):
    """One bracket in which trials rest at their rungs."""

    def __init__(self, bracket: Bracket, divisor: float) -> None:
        super().__init__(bracket.max_trials, concurrent=bracket.concurrent, length=bracket.lengths[0])
        self._lengths = bracket.lengths
        self._divisor = divisor
        self._rung_of: dict[int, int] = {}
        self._rungs = [_Rung() for _ in bracket.lengths]
        self._resting: set[int] = set()
        self._gone: set[int] = set()
        self._closed: set[int] = set()

    def begun(self, trial: int, /) -> None:
        self._rung_of[trial] = 0
        self._rungs[0].under_way += 1

    def validation(self, trial: int, length: float, metric: float, /) -> list[Step]:
        reached = length >= self._lengths[self._rung_of[trial]]
        return self._rank(trial, metric) if reached and trial not in self._resting | self._closed else []

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> list[Step]:
        if closed:
            return []
        self._gone.add(trial)
        if trial in self._resting:
            self._resting.discard(trial)
            return self._close_out()
        if how is TrialEnd.INVALID:
            self._left += 1
            self._rungs[self._rung_of.pop(trial)].under_way -= 1
            for rung in self._rungs:
                rung.ranked.remove(trial)
            return [*self._next(), *self._close_out()]
        return self._rank(trial, WORST)

    @property
    def state(self) -> dict[str, Any]:
        return super().state | {
            "rung_of": moves.pack_pairs(self._rung_of),
            "rungs": [
                [rung.ranked.state, pack_trials(rung.promoted), rung.under_way] for rung in self._rungs
            ],
            "resting": pack_trials(self._resting),
            "gone": pack_trials(self._gone),
            "closed": pack_trials(self._closed),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._rung_of = moves.unpack_pairs(state["rung_of"])
        for rung, (ranked, promoted, under_way) in zip(self._rungs, state["rungs"], strict=True):
            rung.ranked.restore(ranked)
            rung.promoted, rung.under_way = set(unpack_trials(promoted)), under_way
        self._resting, self._gone = set(unpack_trials(state["resting"])), set(unpack_trials(state["gone"]))
        self._closed = set(unpack_trials(state["closed"]))

    def _rank(self, trial: int, metric: float) -> list[Step]:
        """Rank the metric of a trial at its rung: one trial continues, or one more begins."""
        steps: list[Step] = []
        goes_on = False
        waiting = [(trial, metric)]
        while waiting:
            trial, metric = waiting.pop()
            place = self._rung_of[trial]
            rung = self._rungs[place]
            rung.under_way -= 1
            if place == len(self._rungs) - 1:
                rung.ranked.insert(metric, trial, before_equals=False)
                steps += self._close(trial)
                continue
            promoted = self._promoted(rung, trial, metric)
            if promoted != trial and trial not in self._gone | self._resting:
                self._resting.add(trial)
                steps.append(Wait(trial))
            if promoted is None:
                continue
            self._rung_of[promoted] = place + 1
            self._rungs[place + 1].under_way += 1
            length, longer = self._lengths[place : place + 2]
            if promoted in self._gone or longer <= length:  # it goes no further; a failed one is the worst
                reached = WORST if promoted in self._gone else rung.ranked.metric_of(promoted)
                waiting.append((promoted, reached))
                continue
            self._resting.discard(promoted)
            steps.append(GoOn(promoted, longer))
            goes_on = True
        if not goes_on:
            steps += self._next()
        return steps + self._close_out()

    def _promoted(self, rung: _Rung, trial: int, metric: float) -> int | None:
        """Rank the metric of a trial, and return the trial of the rung that is promoted by it, if any."""
        before, now = int(len(rung.ranked) / self._divisor), int((len(rung.ranked) + 1) / self._divisor)
        place = rung.ranked.insert(metric, trial, before_equals=False)
        best = trial if place < now else rung.ranked[before] if now != before else None
        if best is None or best in rung.promoted:
            return None
        rung.promoted.add(best)
        return best

    def _close_out(self) -> list[Step]:
        """Once every trial has begun: end those that rest in rungs that no further trial can reach."""
        if len(self._rungs[0].ranked) < self.trials:
            return []
        steps: list[Step] = []
        for rung in self._rungs:
            if rung.under_way:
                break
            for trial in rung.ranked.ordered(self._resting - rung.promoted):
                steps += self._close(trial)
        return steps

    def _close(self, trial: int) -> list[Step]:
        if trial in self._gone or trial in self._closed:
            return []
        self._closed.add(trial)
        self._resting.discard(trial)
        return [Stop(trial)]


WORST = sys.float_info.max
"""The metric of a failed trial."""


class StoppingHalving(Method):
    """One bracket that stops trials. Each rung has its metrics, best first, with their trials."""

    def __init__(self, bracket: Bracket, divisor: float) -> None:
        super().__init__(bracket.max_trials, concurrent=bracket.concurrent, length=None)
        self._lengths = bracket.lengths
        self._divisor = divisor
        self._rung_of: dict[int, int] = {}
        self._rungs = [Ranking() for _ in bracket.lengths]

    def begun(self, trial: int, /) -> None:
        self._rung_of[trial] = 0

    def validation(self, trial: int, length: float, metric: float, /) -> list[Step]:
        if self._goes_on(trial, length, metric):
            return []
        return [Stop(trial), *self._next()]

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> list[Step]:
        rung = self._rung_of.pop(trial)
        if how is TrialEnd.INVALID:
            self._left += 1
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
        rung_of = moves.pack_pairs(self._rung_of)
        return super().state | {"rung_of": rung_of, "rungs": [ranked.state for ranked in self._rungs]}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self._rung_of = moves.unpack_pairs(state["rung_of"])
        for ranked, kept in zip(self._rungs, state["rungs"], strict=True):
            ranked.restore(kept)

    def _goes_on(self, trial: int, length: float, metric: float) -> bool:
        top = len(self._rungs) - 1
        for rung in range(self._rung_of[trial], top + 1):
            self._rung_of[trial] = rung
            if length < self._lengths[rung]:
                return True
            place = self._rungs[rung].insert(metric, trial, before_equals=True)
            if rung == top or place >= max(int(len(self._rungs[rung]) / self._divisor), 1):
                return False
        return True
