"""Parameters from Optuna, and early ends: the history of a search as a study. Made by `searcher_of`.

The stored form has the order in which trials began and ended, the drawn values and the metrics. It is
complete: a study made from it draws the same. Every draw has a seed of its own, from the seed of the search
and the number of the trial. The state of CMA-ES, which Optuna keeps with its trials, is restored by repeating
its draws in order; the stored values count, whatever it returns.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from math import inf, isfinite
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import BasePruner, MedianPruner, NopPruner, PercentilePruner
from optuna.samplers import BaseSampler, CmaEsSampler, TPESampler
from optuna.trial import FrozenTrial, Trial, TrialState

from tarmac.model.search import SAMPLERS, ParameterRange, RangeKind, SearchMethod, SearchSpec, nested
from tarmac.search.moves import TrialEnd, pack_numbers, pack_trials, unpack_numbers, unpack_trials
from tarmac.search.space import RandomNumbers, RandomSampler, power

PERCENT = 25.0
"""The share of best trials that the percentile pruner lets continue."""

POINTS = 10
"""The number of places of a trial that a pruner checks: the state of a search keeps a metric for each."""

WORST = 1e300
"""The bound for metrics: the sampler does not get larger ones."""

_MIX = 2_654_435_761
_ENDS = {
    TrialEnd.COMPLETED: TrialState.COMPLETE,
    TrialEnd.STOPPED: TrialState.PRUNED,
    TrialEnd.FAILED: TrialState.FAIL,
    TrialEnd.INVALID: TrialState.FAIL,
}
_CODES = {TrialState.COMPLETE: 1, TrialState.PRUNED: 2, TrialState.FAIL: 3}
_STATES = {code: state for state, code in _CODES.items()}


@dataclass(slots=True)
class _Known:
    """A trial, its best metric, the code of its end (0: none), and the metrics at the pruner's places.

    `reported` of these are known to Optuna.
    """

    trial: Trial
    best: float = inf
    code: int = 0
    points: dict[int, float] = field(default_factory=dict)
    reported: int = 0


class LearningSampler:
    """The sampler of a search: draws from Optuna, or at random if only a pruner learns; and prunes trials."""

    def __init__(self, spec: SearchSpec) -> None:
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._spec = spec
        self._prunes = spec.pruner is not None
        self._drawn = RandomSampler(spec) if spec.method not in SAMPLERS else None
        self._ordered = sorted(spec.space, key=lambda item: item.path)
        self._spaces = {
            item.name: _distribution(item)
            for item in self._ordered
            if self._drawn is None and item.kind is not RangeKind.CONST
        }
        self._sampler = _Sampler(spec.method, self._spaces)
        self._study = optuna.create_study(sampler=self._sampler, pruner=_pruner(spec))
        self._trials: list[_Known] = []
        self._order: list[int] = []
        self._values: list[float] = []

    def draw(self, trial: int) -> tuple[dict[str, Any], int]:
        numbers = RandomNumbers(self._spec.seed * _MIX + trial)
        values = self._ask(numbers.below(2**31)).trial.params
        self._values += [float(values[name]) for name in self._spaces]
        if self._drawn is not None:
            return self._drawn.draw(trial)
        found = {item.path: _value(item, values.get(item.name)) for item in self._ordered}
        return nested(found), numbers.below(2**31)

    def validation(self, trial: int, length: float, metric: float, /) -> bool:
        known, longest = self._trials[trial - 1], self._spec.max_time
        if abs(metric) < WORST and not known.code:
            known.best = min(known.best, metric)
            if self._prunes:
                point = min(int(length * POINTS / longest), POINTS) if longest else 0
                known.points.setdefault(point, metric)
        if not self._prunes:
            return False
        _tell_points(known)
        return bool(known.points) and known.trial.should_prune()

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> None:
        known, state = self._trials[trial - 1], _ENDS[TrialEnd.STOPPED if closed else how]
        if not isfinite(known.best) or (state is TrialState.PRUNED and not known.points):
            state = TrialState.FAIL  # nothing to learn from it
        self._order.append(2 * trial + 1)
        self._tell(known, state)

    @property
    def state(self) -> dict[str, Any]:
        """The history in short JSON."""
        kept = self._drawn.state if self._drawn is not None else {}
        kept |= {
            "order": pack_trials(self._order),
            "values": pack_numbers(self._values),
            "best": pack_numbers([each.best for each in self._trials]),
            "ended": pack_trials(each.code for each in self._trials),
        }
        if not self._prunes:
            return kept
        points = [each.points for each in self._trials]
        return kept | {
            "point_counts": pack_trials(map(len, points)),
            "points": pack_trials(point for found in points for point in found),
            "point_metrics": pack_numbers([metric for found in points for metric in found.values()]),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state` into an empty history."""
        values, best = unpack_numbers(state["values"]), unpack_numbers(state["best"])
        codes = unpack_trials(state["ended"])
        points = _points(state) if self._prunes else [{} for _ in best]
        width = len(self._spaces)
        for entry in unpack_trials(state["order"]):
            trial, ended = divmod(entry, 2)
            at = trial - 1
            if not ended:
                kept = values[at * width : (at + 1) * width]
                numbers = RandomNumbers(self._spec.seed * _MIX + trial)
                known = self._ask(numbers.below(2**31), dict(zip(self._spaces, kept, strict=True)))
                self._values += kept
                known.best, known.points = best[at], points[at]
            else:
                self._order.append(entry)
                self._tell(self._trials[at], _STATES[codes[at]])
        if self._drawn is not None:
            self._drawn.restore(state)

    def _ask(self, seed: int, kept: Mapping[str, float] | None = None) -> _Known:
        self._sampler.next(seed, kept)
        known = _Known(self._study.ask(self._spaces))
        self._trials.append(known)
        self._order.append(2 * len(self._trials))
        return known

    def _tell(self, known: _Known, state: TrialState) -> None:
        known.code = _CODES[state]
        _tell_points(known)
        best = known.best if state is TrialState.COMPLETE else None
        self._study.tell(known.trial.number, best, state)


def _tell_points(known: _Known) -> None:
    for point, metric in islice(known.points.items(), known.reported, None):
        known.trial.report(metric, point)
    known.reported = len(known.points)


class _Sampler(BaseSampler):
    """Optuna's sampler of a method, made again for each draw with its seed; `kept` values win over it."""

    def __init__(self, method: SearchMethod, spaces: Mapping[str, BaseDistribution]) -> None:
        self._method = method
        self._together = {
            name: space
            for name, space in spaces.items()
            if not space.single()
            and (method is SearchMethod.TPE or not isinstance(space, CategoricalDistribution))
        }
        self._inner: BaseSampler = optuna.samplers.RandomSampler(seed=0)
        self._kept: Mapping[str, float] | None = None

    def next(self, seed: int, kept: Mapping[str, float] | None) -> None:
        """Set the seed and any stored values of the next trial."""
        self._kept = kept
        match self._method:
            case SearchMethod.TPE:
                self._inner = TPESampler(seed=seed, multivariate=True, constant_liar=True)
            case SearchMethod.CMA_ES:
                self._inner = CmaEsSampler(seed=seed, warn_independent_sampling=False)

    def infer_relative_search_space(
        self, _study: optuna.Study, _trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        return self._together

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if self._kept is None:
            return self._inner.sample_relative(study, trial, search_space)
        if self._method is SearchMethod.CMA_ES:
            self._inner.sample_relative(study, trial, search_space)  # for its state in the trial
        return {name: self._exact(name, space) for name, space in search_space.items()}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if self._kept is not None:
            return self._exact(param_name, param_distribution)
        return self._inner.sample_independent(study, trial, param_name, param_distribution)

    def _exact(self, name: str, space: BaseDistribution) -> float | int:
        assert self._kept is not None, "asked for what was kept"
        value = self._kept[name]
        return value if isinstance(space, FloatDistribution) else int(value)


def _points(state: Mapping[str, Any]) -> list[dict[int, float]]:
    """The metrics that a pruner has seen, by trial."""
    found = zip(unpack_trials(state["points"]), unpack_numbers(state["point_metrics"]), strict=True)
    return [dict(islice(found, count)) for count in unpack_trials(state["point_counts"])]


def _value(item: ParameterRange, value: Any) -> Any:
    """The value of a parameter, from that of its distribution."""
    match item.kind:
        case RangeKind.CONST:
            return item.values[0]
        case RangeKind.CHOICE:
            return item.values[int(value)]
        case RangeKind.LOG:
            return power(item.base, value)
        case RangeKind.INT:
            return int(value)
        case RangeKind.UNIFORM:
            return value


def _distribution(item: ParameterRange) -> BaseDistribution:
    """Optuna's distribution for a range: the place of a choice, the exponent of a log range."""
    if item.kind is RangeKind.CHOICE:
        return CategoricalDistribution(tuple(range(len(item.values))))
    if item.kind is RangeKind.INT:
        return IntDistribution(int(item.low), int(item.high))
    return FloatDistribution(item.low, item.high)


def _pruner(spec: SearchSpec) -> BasePruner:
    if spec.pruner == "median":
        return MedianPruner()
    if spec.pruner == "percentile":
        return PercentilePruner(PERCENT)
    return NopPruner()
