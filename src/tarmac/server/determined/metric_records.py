"""Metrics of a trial as Determined has them: a summary, and reports by step. Called by the routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.control.metrics import MetricChoice
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.metric_points import NO_STEP, Points
from tarmac.model.metrics import TRAINING, VALIDATION, MetricStore, MetricSummary, SeriesKey
from tarmac.model.run import Run
from tarmac.server.determined.written import finite, time_of

_GROUPS = {TRAINING: "avg_metrics", VALIDATION: "validation_metrics"}
"""In summaries; other groups have their own names."""

_MOST_POINTS = 2_000
"""Of more points of a metric an even choice is shown."""


@dataclass(slots=True)
class StepReport:
    """What a trial reported of a group of metrics at a step, and when it last did."""

    step: int
    at: float
    group: str
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The report as a workload of Determined."""
        return {
            "totalBatches": self.step,
            "numInputs": 0,
            "endTime": time_of(self.at),
            "metrics": metrics_record(self.metrics),
        }


def metrics_record(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics in the form that they have everywhere."""
    return {"avgMetrics": dict(metrics), "batchMetrics": []}


def report_record(report: StepReport, *, trial: int, place: int) -> dict[str, Any]:
    """A report as the client's streams have it; `place` is its own among those of the trial."""
    name = _GROUPS[VALIDATION if report.group == VALIDATION else TRAINING]
    return {
        "id": place,
        "trialId": trial,
        "trialRunId": 1,
        "totalBatches": report.step,
        "endTime": time_of(report.at),
        "metrics": {name: dict(report.metrics)},
        "group": report.group,
        "archived": False,
    }


def summary_metrics(summaries: Iterable[MetricSummary]) -> dict[str, Any]:
    """Each metric in short, by group."""
    found: dict[str, Any] = defaultdict(dict)
    for each in summaries:
        low, high = (extreme.value if extreme is not None else None for extreme in (each.low, each.high))
        found[_GROUPS.get(each.key.group, each.key.group)].setdefault(
            each.key.name,
            {
                "count": each.count,
                "last": finite(each.last.value),
                "min": finite(low),
                "max": finite(high),
                "sum": finite(each.total),
                "mean": finite(each.total / each.count) if each.total is not None else None,
                "type": "number",
            },
        )
    return dict(found)


def step_reports(plane: ControlPlane, actor: Actor, run: Run) -> list[StepReport]:
    """What a trial reported, by step; of each the training first. Of many points an even choice."""
    return _by_step(
        (series.summary.key, series.points)
        for series in plane.metrics(actor, [run.id], MetricChoice(points=_MOST_POINTS))
        if series.points is not None
    )


def whole_reports(store: MetricStore, run: Run, group: str | None) -> list[StepReport]:
    """Everything that the lowest rank of a trial reported of a group (None: of all), by step."""
    lowest: dict[tuple[str, str], SeriesKey] = {}
    for each in store.summaries([run.id]):  # by rank
        if group in (None, each.key.group):
            lowest.setdefault((each.key.group, each.key.name), each.key)
    return _by_step(store.points(list(lowest.values())).items())


def _by_step(series: Iterable[tuple[SeriesKey, Points]]) -> list[StepReport]:
    steps: dict[tuple[int, str], StepReport] = {}
    for key, points in series:
        for step, at, value in zip(points.steps, points.times, points.values, strict=True):
            total = 0 if step == NO_STEP else step
            found = steps.setdefault((total, key.group), StepReport(step=total, at=at, group=key.group))
            found.at = max(found.at, at)
            found.metrics[key.name] = finite(value)
    return [steps[key] for key in sorted(steps)]


def validation_at(reports: Sequence[StepReport], *, step: int | None, until: float) -> Mapping[str, Any]:
    """What was validated at a step, else what last was before a time."""
    found = [each for each in reports if each.group == VALIDATION]
    here = [each for each in found if each.step == step] or [each for each in found if each.at <= until]
    return here[-1].metrics if here else {}
