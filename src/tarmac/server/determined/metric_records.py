"""Metrics of a trial as Determined has them: a summary, and workloads by step. Called by `trials_api`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tarmac.control.metrics import MetricChoice
from tarmac.control.service import ControlPlane
from tarmac.model.actor import Actor
from tarmac.model.metric_points import NO_STEP
from tarmac.model.metrics import VALIDATION, MetricSummary
from tarmac.model.run import Run
from tarmac.server.determined.written import finite, time_of

_GROUPS = {"training": "avg_metrics", VALIDATION: "validation_metrics"}


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


def workloads(plane: ControlPlane, actor: Actor, run: Run, *, most: int) -> list[dict[str, Any]]:
    """What a trial reported, by step; at most so many points of a metric."""
    steps: dict[tuple[int, str], dict[str, Any]] = {}
    for series in plane.metrics(actor, [run.id], MetricChoice(points=most)):
        if series.points is None:
            continue
        kind = "validation" if series.summary.key.group == VALIDATION else "training"
        points = zip(series.points.steps, series.points.times, series.points.values, strict=True)
        for step, at, value in points:
            total = 0 if step == NO_STEP else step
            found = steps.setdefault((total, kind), {"at": at, "metrics": {}})
            found["at"] = max(found["at"], at)
            found["metrics"][series.summary.key.name] = finite(value)
    return [
        {
            kind: {
                "totalBatches": total,
                "numInputs": 0,
                "endTime": time_of(found["at"]),
                "metrics": {"avgMetrics": found["metrics"], "batchMetrics": []},
            }
        }
        for (total, kind), found in sorted(steps.items())
    ]
