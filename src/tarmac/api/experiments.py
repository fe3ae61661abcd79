"""Experiments, their trials, and metrics of runs. Made in `server.routes.experiments`, read by the client."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct


class Search(Struct, frozen=True, kw_only=True):
    """The search of an experiment: see the reference of the run file."""

    method: str
    metric: str
    smaller_is_better: bool
    parameters: Mapping[str, Any]
    seed: int
    max_trials: int | None
    max_concurrent_trials: int
    max_time: int | None
    time_metric: str | None
    max_slots: int | None


class Trial(Struct, frozen=True, kw_only=True):
    """A trial: its run, its parameters, its newest and best metric. Lengths are steps, or of `time_metric`.

    `end` is completed, failed, stopped, invalid or closed (the search ended it early).
    """

    number: int
    run: str
    name: str
    parameters: Mapping[str, Any]
    state: str
    run_state: str | None
    end: str | None
    length: int | None
    latest: float | None
    at: float | None
    best: float | None
    best_at: float | None
    attempt: int
    slot_s: float


class Experiment(Struct, frozen=True, kw_only=True):
    """A search over parameters. Times are seconds since the epoch; `progress` goes from 0 to 1."""

    id: str
    name: str
    project: str
    user: str
    dialect: str
    state: str
    outcome: str | None
    message: str | None
    progress: float
    created_at: float
    ended_at: float | None
    archived: bool
    parent: str | None
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
    """The points of a curve, in three lists of the same length; a value is as in `MetricSeries`."""

    steps: Sequence[int | None]
    times: Sequence[float]
    values: Sequence[float | str]


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
