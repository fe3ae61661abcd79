"""`SearchSpec`: how an experiment chooses the parameters of its trials, and which of them continue.

Made by the dialects, used by `search` (and by samplers behind the same port), stored with the experiment.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from tarmac.model.codec import StoredRecord
from tarmac.model.lifecycle import ExperimentState, TrialState
from tarmac.model.progress import Outcome

DEFAULT_CONCURRENT_TRIALS = 16

DEFAULT_DIVISOR = 4.0
DEFAULT_MAX_RUNGS = 5


class SearchMethod(StrEnum):
    """How the next trial is chosen. TPE and CMA_ES learn from the metrics of earlier trials."""

    SINGLE = "single"
    RANDOM = "random"
    GRID = "grid"
    ASHA = "asha"
    ADAPTIVE_ASHA = "adaptive_asha"
    TPE = "tpe"
    CMA_ES = "cma_es"


HALVING = frozenset({SearchMethod.ASHA, SearchMethod.ADAPTIVE_ASHA})
"""The methods that end trials early."""

SAMPLERS = frozenset({SearchMethod.TPE, SearchMethod.CMA_ES})
"""The methods that choose new parameters by the metrics of earlier trials; see `samplers`."""


class SearchMode(StrEnum):
    """How early an adaptive search ends trials: late in many brackets, or early in one."""

    AGGRESSIVE = "aggressive"
    STANDARD = "standard"
    CONSERVATIVE = "conservative"


class RangeKind(StrEnum):
    """The kind of values of a parameter."""

    CONST = "const"
    CHOICE = "choice"
    INT = "int"
    UNIFORM = "uniform"
    LOG = "log"


class ParameterRange(StoredRecord, frozen=True, kw_only=True):
    """One parameter, at `path` in the nested parameters, and its values.

    `low` and `high` bound INT (both included) and UNIFORM; of LOG they bound the exponent of `base`. `values`
    are those of CHOICE, or the only one of CONST. `count` is its number of points in a grid.
    """

    path: tuple[str, ...]
    kind: RangeKind
    low: float = 0.0
    high: float = 0.0
    base: float = 10.0
    values: tuple[Any, ...] = ()
    count: int | None = None

    @property
    def name(self) -> str:
        """The path as people write it, `optimizer.lr`."""
        return ".".join(self.path)


class CheckpointPolicy(StoredRecord, frozen=True, kw_only=True):
    """The checkpoints of an experiment that are kept once it has ended; all of them if `every` is true.

    `experiment_best` of the best trials, `trial_best` and `trial_latest` of each trial.
    """

    every: bool = False
    experiment_best: int = 0
    trial_best: int = 1
    trial_latest: int = 1


class SearchRules(StoredRecord, frozen=True, kw_only=True):
    """The method of a search, its metric and its limits.

    The search compares the reported `metric` of trials at a length: the report's own step, or its value of
    `time_metric`. A trial is at most `max_time` long. `max_trials` None: as many as the method has (grid,
    single). `max_concurrent_trials` 0: as many as the method can use at once. `max_slots` bounds the slots of
    all trials together.
    """

    method: SearchMethod
    metric: str = ""
    smaller_is_better: bool = True
    seed: int = 0
    max_trials: int | None = None
    max_concurrent_trials: int = DEFAULT_CONCURRENT_TRIALS
    max_time: int | None = None
    time_metric: str | None = None
    max_slots: int | None = None


class SearchSpec(SearchRules, frozen=True, kw_only=True):
    """A search, as in its file.

    `metric_group` is the group of metrics that the metric is of (None: any). With `promotion`, a trial rests
    at each rung until it is among the best of it; without, it continues unless it is not. With `reverse`, a
    grid begins with its last point. `pruner` ends trials that do worse than others at the same length.
    """

    metric_group: str | None = None
    space: tuple[ParameterRange, ...] = ()
    divisor: float = DEFAULT_DIVISOR
    mode: SearchMode = SearchMode.STANDARD
    max_rungs: int = DEFAULT_MAX_RUNGS
    num_rungs: int | None = None
    bracket_rungs: tuple[int, ...] = ()
    promotion: bool = False
    reverse: bool = False
    checkpoints: CheckpointPolicy = CheckpointPolicy()
    pruner: str | None = None


class TrialPlace(StoredRecord, frozen=True, kw_only=True):
    """The experiment of a trial's run, and the trial's number (from 1).

    `max_slots` bounds the slots of all its trials together; `seed` is for the trial's own use. The search
    gets `metric` of each report (of `metric_group`, None: of any), at its step or its value of `time_metric`.
    """

    experiment: str
    number: int
    metric: str
    metric_group: str | None = None
    time_metric: str | None = None
    seed: int = 0
    max_slots: int | None = None


class TrialProgress(Struct, frozen=True, kw_only=True):
    """A trial of an experiment: its parameters, its permitted length and its progress.

    `experiment.Trial` is its whole record, `api.Trial` the answer about it. `length` is how far it may go
    (None: to its own end), `at` the length of its newest metric, `latest`, and `best_at` that of its best.
    `end` is how it ended: completed, failed, stopped, invalid; or closed by the search.
    """

    number: int
    parameters: Mapping[str, Any] = field(default_factory=dict)
    state: TrialState = TrialState.OPEN
    length: int | None = None
    latest: float | None = None
    at: float | None = None
    best: float | None = None
    best_at: float | None = None
    end: str | None = None


class ExperimentProgress(Struct, frozen=True, kw_only=True):
    """How far an experiment has come; `progress` goes from 0 to 1, times are seconds since the epoch.

    `experiment.Experiment` is its whole record, `api.Experiment` the answer about it. `parent` is the
    experiment that this one was made from.
    """

    id: str
    user: str
    created_at: float
    state: ExperimentState = ExperimentState.ACTIVE
    progress: float = 0.0
    outcome: Outcome | None = None
    message: str | None = None
    ended_at: float | None = None
    parent: str | None = None
    archived: bool = False


def nested(values: Mapping[tuple[str, ...], Any]) -> dict[str, Any]:
    """Values by path as nested mappings."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        inner = result
        for key in path[:-1]:
            inner = inner.setdefault(key, {})
        inner[path[-1]] = value
    return result
