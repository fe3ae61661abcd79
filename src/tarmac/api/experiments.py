"""Experiments and their trials. Made in `server.records.experiments`, read by the client."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class Search(TypedDict):
    """The search of an experiment: see the reference of the run file."""

    method: str
    metric: str
    smaller_is_better: bool
    parameters: dict[str, Any]
    seed: int
    max_trials: int | None
    max_concurrent_trials: int
    max_time: int | None
    time_metric: str | None
    max_slots: int | None


class Trial(TypedDict):
    """A trial: its run, its parameters, its newest and best metric. Lengths are steps, or of `time_metric`.

    `end` is completed, failed, stopped, invalid or closed (the search ended it early).
    """

    number: int
    run: str
    name: str
    parameters: dict[str, Any]
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


class Experiment(TypedDict):
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
    labels: dict[str, str]
    warnings: list[str]


class ExperimentPage(TypedDict):
    """A part of the list of experiments, newest first; `next` is the `before` of the following part."""

    experiments: list[Experiment]
    next: str | None


class PreviewLine(TypedDict):
    """The number of trials that end at this length; null: at their own end."""

    trials: int
    length: int | None
