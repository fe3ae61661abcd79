"""Converts metrics of a trial into Determined's form: summaries and reports by step. Called by the routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.api.experiment_operations import MetricChoice
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.metric_points import NO_STEP, Points
from tarmac.model.metrics import TRAINING, VALIDATION, MetricStore, MetricSummary, SeriesKey
from tarmac.model.run import Run
from tarmac.systems.determined.gateway.records.written import finite, time_of

_GROUPS = {TRAINING: "avg_metrics", VALIDATION: "validation_metrics"}
"""The names of these groups in summaries; other groups keep their own names."""

_MOST_POINTS = 2_000
"""Maximum points of a metric; of more, an evenly spaced selection is shown."""


@dataclass(slots=True)
class StepReport:
    """The metrics of a group that a trial reported at a step, and the time of the last report."""

    step: int
    at: float
    group: str
    metrics: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """The report as a workload in Determined's form."""
        return {
            "totalBatches": self.step,
            "numInputs": 0,
            "endTime": time_of(self.at),
            "metrics": metrics_record(self.metrics),
        }


def metrics_record(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics in Determined's usual form."""
    return {"avgMetrics": dict(metrics), "batchMetrics": []}


def report_record(report: StepReport, *, trial: int, place: int) -> dict[str, Any]:
    """A report in the form of the client's streams; `place` is its index among the trial's reports."""
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
    """A summary of each metric, by group."""
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
    """A trial's reports by step, each step's training metrics first; an evenly spaced selection of many."""
    return _by_step(
        (series.summary.key, series.points)
        for series in plane.metrics(actor, [run.id], MetricChoice(points=_MOST_POINTS))
        if series.points is not None
    )


def whole_reports(store: MetricStore, run: Run, group: str | None) -> list[StepReport]:
    """All reports of a group (None: of all) from the lowest rank of a trial, by step."""
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
    """The validation metrics of a step, or else the last ones before a time."""
    found = [each for each in reports if each.group == VALIDATION]
    here = [each for each in found if each.step == step] or [each for each in found if each.at <= until]
    return here[-1].metrics if here else {}
