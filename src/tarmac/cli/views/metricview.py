"""A run's reported progress and metrics as text. Called by `metrics`, `show` and followers.

Metrics are numbers, texts or truth values; one that is not finite is the text `nan`, `inf` or `-inf`
(docs/using/api.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from tarmac import api
from tarmac.cli.views.amounts import age, number
from tarmac.cli.views.table import Column, Table, table_text
from tarmac.cli.views.terminal import Terminal, one_line

NEWEST_REPORTS = 10_000
"""Number of reports requested for their last values; views omit metrics that only older ones have."""

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def metric_text(value: object) -> str:
    """One value: a number in few digits, any other value unchanged."""
    if isinstance(value, bool) or value is None:
        return str(value).lower() if value is not None else ""
    if isinstance(value, int | float):
        return number(value)
    return _NOT_FINITE.get(str(value)) or one_line(str(value))


def report_text(report: api.Report) -> str:
    """Progress and metrics in one line: "45%, step 1200, loss 0.031"."""
    parts = []
    if report.progress is not None:
        parts.append(f"{report.progress:.0%}")
    if report.step is not None:
        parts.append(f"step {report.step}")
    metrics = sorted(report.metrics.items())
    parts += [f"{one_line(name)} {metric_text(value)}" for name, value in metrics]
    return ", ".join(parts) or "a report without values"


def not_finite(reports: Sequence[api.Report]) -> Iterator[str]:
    """A sentence for each metric whose last value is not finite: "loss is NaN since step 4"."""
    last: dict[str, object] = {}
    since: dict[str, api.Report] = {}
    for report in reports:
        for name, value in report.metrics.items():
            if value not in _NOT_FINITE:
                since.pop(name, None)
            elif name not in since:
                since[name] = report
            last[name] = value
    for name, report in sorted(since.items()):
        where = f" since step {report.step}" if report.step is not None else ""
        yield f"{one_line(name)} is {_NOT_FINITE[str(last[name])]}{where}"


def report_table(reports: Sequence[api.Report], *, now: float, terminal: Terminal) -> str:
    """A row per report, a column per metric."""
    names = sorted({name for report in reports for name in report.metrics})
    several_nodes = len({report.node for report in reports}) > 1
    table: Table[api.Report] = (
        Column("WHEN", lambda report, now: age(report.at, now), right=True),
        Column("NODE", lambda report, _: report.node if several_nodes else "", optional=True),
        Column("STEP", lambda report, _: report.step, right=True),
        Column(
            "PROGRESS",
            lambda report, _: "" if report.progress is None else f"{report.progress:.0%}",
            right=True,
        ),
        *(Column(one_line(name), partial(_metric, name), right=True, optional=True) for name in names),
    )
    return table_text(table, reports, terminal, now=now)


def _metric(name: str, report: api.Report, _now: float) -> str:
    return metric_text(report.metrics.get(name))


def series_name(series: api.MetricSeries) -> str:
    """The name of a series: the group and the metric; without the group `training`."""
    name = series.name if series.group == "training" else f"{series.group}/{series.name}"
    return one_line(name)


def points_of(series: api.MetricSeries) -> list[tuple[int | None, float, Any]]:
    """The points of a series: step, time and value of each; none if they were not requested."""
    points = series.points
    return list(zip(points.steps, points.times, points.values, strict=True)) if points is not None else []


SERIES: Table[api.MetricSeries] = (
    Column("METRIC", lambda series, _: series_name(series)),
    Column("RUN", lambda series, _: series.run_name, flexible=True),
    Column("LAST", lambda series, _: metric_text(series.last), right=True),
    Column("STEP", lambda series, _: series.last_step, right=True),
    Column("LOWEST", lambda series, _: metric_text(series.low), right=True),
    Column("AT STEP", lambda series, _: series.low_step, right=True, optional=True),
    Column("HIGHEST", lambda series, _: metric_text(series.high), right=True),
    Column("AT STEP", lambda series, _: series.high_step, right=True, optional=True),
    Column("REPORTS", lambda series, _: series.count, right=True, optional=True),
    Column("WHEN", lambda series, now: age(series.last_at, now), right=True, optional=True),
)


def series_table(found: Sequence[api.MetricSeries], *, now: float, terminal: Terminal) -> str:
    """A row per metric and run: the last value, the lowest and the highest, each with its step.

    Several runs are shown by their names, or by their ids if two have the same name.
    """
    names, runs = {series.run_name for series in found}, {series.run for series in found}
    by_id: Column[api.MetricSeries] = Column("RUN", lambda series, _: series.run, flexible=True)
    metric, by_name, *rest = SERIES
    shown = [by_id if len(names) < len(runs) else by_name] if len(runs) > 1 else []
    return table_text([metric, *shown, *rest], sorted(found, key=series_name), terminal, now=now)


def point_line(series: api.MetricSeries, step: int | None, value: object) -> str:
    """One point, for followers."""
    where = "" if step is None else f"  step {step}"
    return f"{one_line(series.run_name)}{where}  {series_name(series)} {metric_text(value)}"
