"""The operations on experiments, on metrics across runs, and on the numbers of both, with their answers.

Bound by `server.routes`, called by `client`.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tarmac.api.operation import LARGEST, Count, ListQuery, Operation, Query
from tarmac.api.run_operations import StopQuery
from tarmac.api.submit_operations import SubmissionBody
from tarmac.model.actor import Action
from tarmac.model.lifecycle import ExperimentState
from tarmac.model.search import ExperimentProgress, SearchRules, TrialProgress


class Search(SearchRules, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    """The search of an experiment: see the reference of the run file."""

    parameters: Mapping[str, Any]


class Trial(TrialProgress, frozen=True, kw_only=True):
    """A trial and its run. Lengths are steps, or of `time_metric`."""

    run: str
    name: str
    run_state: str | None
    attempt: int
    slot_s: float


class Experiment(ExperimentProgress, frozen=True, kw_only=True):
    """A search over parameters."""

    name: str
    project: str
    dialect: str
    search: Search
    source: str
    labels: Mapping[str, str]
    warnings: Sequence[str]


class ExperimentPage(Struct, frozen=True, kw_only=True):
    """A part of the list of experiments, newest first; `next` is the `before` of the following part."""

    experiments: Sequence[Experiment]
    next: str | None


class PreviewLine(Struct, frozen=True):
    """The number of trials that end at this length; null: at their own end."""

    trials: int
    length: int | None


class MetricPoints(Struct, frozen=True, kw_only=True):
    """The points of a curve, in three lists of the same length; a value is as in `MetricSeries`.

    `total` is the number of points from which they were chosen.
    """

    steps: Sequence[int | None]
    times: Sequence[float]
    values: Sequence[float | str]
    total: int


class MetricSeries(Struct, frozen=True, kw_only=True):
    """A summary of a run's metric, and its points if requested.

    A number that is not finite is `"nan"`, `"inf"` or `"-inf"`; `low` and `high` are of finite ones, null if
    there are none.
    """

    run: str
    run_name: str
    group: str
    name: str
    rank: int
    count: int
    last: float | str
    last_step: int | None
    last_at: float
    low: float | None
    low_step: int | None
    high: float | None
    high_step: int | None
    points: MetricPoints | None


class Numbers(Struct, frozen=True, kw_only=True):
    """The numbers of a run as a trial, and of its experiment."""

    experiment: int
    trial: int


class Numbered(Struct, frozen=True, kw_only=True):
    """The owner of a number: an experiment, or a run that belongs to none."""

    id: str


MOST_POINTS = 1_000_000
"""The maximum of points in one series, and in one answer."""


class ExperimentsQuery(ListQuery[ExperimentState], frozen=True, kw_only=True):
    """`scope=mine` selects the caller's own experiments, `before` those older than the one with this id."""

    archived: bool | None = None
    before: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100


class BestQuery(Query, frozen=True, kw_only=True):
    """At most `limit` trials."""

    limit: Count = 1


class ArchiveQuery(Query, frozen=True, kw_only=True):
    """Whether plain lists leave out the experiment."""

    archived: bool = True


Step = Annotated[int, Meta(ge=-LARGEST, le=LARGEST)]


class MetricChoice(Query, frozen=True, kw_only=True):
    """A choice among the metrics of runs: these names and this group (empty, None: all).

    `points`: the maximum for each series (None: no points); fewer points than reported draw the same curve.
    `first_step`, `last_step`: only points of this range, and the nearest on each side; `first_s`, `last_s`:
    the same in seconds since the run started. `every_rank`: include ranks above the lowest one that reported
    a metric.
    """

    names: list[str] = field(default_factory=list, name="name")
    group: str | None = None
    points: Annotated[int, Meta(ge=2, le=MOST_POINTS)] | None = None
    first_step: Step | None = None
    last_step: Step | None = None
    first_s: float | None = None
    last_s: float | None = None
    every_rank: bool = False


class MetricsQuery(MetricChoice, frozen=True, kw_only=True):
    """The ids or names of runs, and a choice among their metrics; `run` and `name` may be given again."""

    run: list[str]


class NumbersQuery(Query, frozen=True, kw_only=True):
    """The ids of runs."""

    run: Annotated[list[str], Meta(max_length=1_000)]


class ExperimentBody(SubmissionBody, frozen=True, kw_only=True):
    """A run file with a search over its parameters; or `fork`, the reference of an experiment to copy.

    `extras.changes` changes the configuration of the copy.
    """

    fork: str | None = None


EXPERIMENTS = Operation("GET", "/experiments", Action.READ, ExperimentPage, query=ExperimentsQuery)
EXPERIMENT = Operation("GET", "/experiments/{experiment}", Action.READ, Experiment)
TRIALS = Operation("GET", "/experiments/{experiment}/trials", Action.READ, list[Trial])
BEST_TRIALS = Operation("GET", "/experiments/{experiment}/best", Action.READ, list[Trial], query=BestQuery)
REMOVE_EXPERIMENT = Operation("DELETE", "/experiments/{experiment}", Action.CONTROL, Experiment)
PAUSE_EXPERIMENT = Operation("POST", "/experiments/{experiment}/pause", Action.CONTROL, Experiment)
ACTIVATE_EXPERIMENT = Operation("POST", "/experiments/{experiment}/activate", Action.CONTROL, Experiment)
STOP_EXPERIMENT = Operation(
    "POST", "/experiments/{experiment}/stop", Action.CONTROL, Experiment, query=StopQuery
)
CONTINUE_EXPERIMENT = Operation("POST", "/experiments/{experiment}/continue", Action.CONTROL, Experiment)
ARCHIVE_EXPERIMENT = Operation(
    "POST", "/experiments/{experiment}/archive", Action.CONTROL, Experiment, query=ArchiveQuery
)
METRICS = Operation("GET", "/metrics", Action.READ, list[MetricSeries], query=MetricsQuery)
NUMBERS = Operation("GET", "/numbers", Action.READ, dict[str, Numbers], query=NumbersQuery)
NUMBERED_EXPERIMENT = Operation("GET", "/numbers/experiments/{number}", Action.READ, Numbered)


CREATE_EXPERIMENT = Operation(
    "POST", "/experiments", Action.SUBMIT, Experiment, body=ExperimentBody, status=201
)
PREVIEW_SEARCH = Operation(
    "POST", "/experiments/preview", Action.SUBMIT, list[PreviewLine], body=ExperimentBody
)
