"""Metrics of runs: their reports, as summaries and as curves. Made in `server.records.metrics`."""

from collections.abc import Sequence

from msgspec import Struct


class MetricPoints(Struct, frozen=True, kw_only=True):
    """The points of a curve, in three lists of the same length; a value is as in `MetricSeries`."""

    steps: Sequence[int | None]
    times: Sequence[float]
    values: Sequence[float | str]


class MetricSeries(Struct, frozen=True, kw_only=True):
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
