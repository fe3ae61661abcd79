"""A run's reported progress and metrics as text. Called by `metrics`, `show` and followers.

Metrics are numbers, texts or truth values; one that is not finite is the text `nan`, `inf` or `-inf`
(docs/using/api.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tarmac.cli.views.amounts import age, number
from tarmac.cli.views.table import Column, render
from tarmac.cli.views.terminal import Terminal, one_line

if TYPE_CHECKING:
    from tarmac import api

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


def report_text(report: Mapping[str, Any]) -> str:
    """Progress and metrics in one line: "45%, step 1200, loss 0.031"."""
    parts = []
    if report.get("progress") is not None:
        parts.append(f"{report['progress']:.0%}")
    if report.get("step") is not None:
        parts.append(f"step {report['step']}")
    metrics = sorted((report.get("metrics") or {}).items())
    parts += [f"{one_line(name)} {metric_text(value)}" for name, value in metrics]
    return ", ".join(parts) or "a report without values"


def not_finite(reports: Sequence[api.Report]) -> Iterator[str]:
    """A sentence for each metric whose last value is not finite: "loss is NaN since step 4"."""
    last: dict[str, object] = {}
    since: dict[str, api.Report] = {}
    for report in reports:
        for name, value in report["metrics"].items():
            if value not in _NOT_FINITE:
                since.pop(name, None)
            elif name not in since:
                since[name] = report
            last[name] = value
    for name, report in sorted(since.items()):
        where = f" since step {report['step']}" if report["step"] is not None else ""
        yield f"{one_line(name)} is {_NOT_FINITE[str(last[name])]}{where}"


def report_table(reports: Sequence[api.Report], *, now: float, terminal: Terminal) -> str:
    """A row per report, a column per metric."""
    names = sorted({name for report in reports for name in report["metrics"]})
    heads = [
        Column(title="WHEN", right=True),
        Column(title="NODE", optional=True),
        Column(title="STEP", right=True),
        Column(title="PROGRESS", right=True),
        *(Column(title=one_line(name), right=True, optional=True) for name in names),
    ]
    several_nodes = len({report["node"] for report in reports}) > 1
    rows = (
        (
            age(report["at"], now),
            report["node"] if several_nodes else "",
            str(report["step"]) if report["step"] is not None else "",
            f"{report['progress']:.0%}" if report["progress"] is not None else "",
            *(metric_text(report["metrics"].get(name)) for name in names),
        )
        for report in reports
    )
    return render(heads, rows, terminal)


def series_name(series: api.MetricSeries) -> str:
    """The name of a series: the group and the metric; without the group `training`."""
    name = series.name if series.group == "training" else f"{series.group}/{series.name}"
    return one_line(name)


def series_table(found: Sequence[api.MetricSeries], *, now: float, terminal: Terminal) -> str:
    """A row per metric and run: the last value, the lowest and the highest, each with its step."""
    heads = [
        Column(title="METRIC"),
        Column(title="RUN", flexible=True),
        Column(title="LAST", right=True),
        Column(title="STEP", right=True),
        Column(title="LOWEST", right=True),
        Column(title="AT STEP", right=True, optional=True),
        Column(title="HIGHEST", right=True),
        Column(title="AT STEP", right=True, optional=True),
        Column(title="REPORTS", right=True, optional=True),
        Column(title="WHEN", right=True, optional=True),
    ]
    several = len({series.run for series in found}) > 1
    twins = len({series.run_name for series in found}) < len({series.run for series in found})
    rows = (
        (
            series_name(series),
            (series.run if twins else series.run_name) if several else "",
            metric_text(series.last),
            _step_text(series.last_step),
            metric_text(series.low),
            _step_text(series.low_step),
            metric_text(series.high),
            _step_text(series.high_step),
            str(series.count),
            age(series.last_at, now),
        )
        for series in sorted(found, key=series_name)
    )
    return render(heads, rows, terminal)


def point_line(series: api.MetricSeries, step: int | None, value: object) -> str:
    """One point, for followers."""
    where = "" if step is None else f"  step {step}"
    return f"{one_line(series.run_name)}{where}  {series_name(series)} {metric_text(value)}"


def _step_text(step: int | None) -> str:
    return "" if step is None else str(step)
