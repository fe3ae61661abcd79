"""Metrics of runs: their reports, as summaries and as curves. Made in `server.records.metrics`."""

from __future__ import annotations

from typing_extensions import TypedDict


class MetricPoints(TypedDict):
    """The points of a curve, in three lists of the same length; a value is as in `MetricSeries`."""

    steps: list[int | None]
    times: list[float]
    values: list[float | str]


class MetricSeries(TypedDict):
    """A summary of a run's metric, and its points if requested.

    A number that is not finite is `"nan"`, `"inf"` or `"-inf"`; `low` and `high` are of finite ones.
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
