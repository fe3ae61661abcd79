"""Metrics of a trial as Determined has them: a summary, and reports by step. Called by the routes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.control.metrics import MetricChoice
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.metric_points import NO_STEP
from tarmac.model.metrics import VALIDATION, MetricSummary
from tarmac.model.run import Run
from tarmac.server.determined.written import finite, time_of

_GROUPS = {"training": "avg_metrics", VALIDATION: "validation_metrics"}
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
                "type": "number",
            },
        )
    return dict(found)


def step_reports(plane: ControlPlane, actor: Actor, run: Run) -> list[StepReport]:
    """What a trial reported, by step; of each the training first."""
    steps: dict[tuple[int, str], StepReport] = {}
    for series in plane.metrics(actor, [run.id], MetricChoice(points=_MOST_POINTS)):
        if series.points is None:
            continue
        key = series.summary.key
        points = zip(series.points.steps, series.points.times, series.points.values, strict=True)
        for step, at, value in points:
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
