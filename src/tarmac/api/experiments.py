"""Experiments, their trials, and metrics of runs. Made in `server.routes.experiments`, read by the client."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

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
