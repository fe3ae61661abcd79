"""Converts experiments, trials and metrics into Determined's records. Pure; called by the routes."""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tarmac.api.experiment_operations import MetricChoice
from tarmac.control.experiments import TrialRow, rank
from tarmac.control.service import ControlPlane
from tarmac.dialects.dialect import Report
from tarmac.dialects.native.search import written_parameters
from tarmac.model.actor import Actor
from tarmac.model.cluster import DEFAULT_POOL
from tarmac.model.codec import encode
from tarmac.model.experiment import Experiment
from tarmac.model.lifecycle import ExperimentState, RunState
from tarmac.model.metrics import NO_STEP, TRAINING, VALIDATION, MetricStore, MetricSummary, Points, SeriesKey
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.model.spec import RunSpec
from tarmac.systems.determined.gateway.calls import finite, time_of
from tarmac.systems.determined.gateway.changing import NOTES
from tarmac.systems.determined.gateway.gateway import UNCATEGORIZED, task_name
from tarmac.systems.determined.gateway.routes import projects
from tarmac.systems.determined.gateway.routes.users import user_id
from tarmac.systems.determined.reader import NO_PROJECT
from tarmac.systems.determined.search import METHODS
from tarmac.systems.determined.statuses import of_tarmac, status

_NAMES = {method: name for name, method in METHODS.items()}
_ENDS = {"completed": "COMPLETED", "closed": "COMPLETED", "invalid": "COMPLETED", "stopped": "CANCELED"}


def experiment(
    experiment: Experiment, *, number: int, rows: Sequence[TrialRow], numbers: Mapping[str, int]
) -> dict[str, Any]:
    """An experiment with its trials; `numbers` has those of trials by run, and that of its parent by id."""
    config, parent = config_of(experiment.spec), experiment.parent
    rated = [row.trial for row in rows if row.trial.best is not None]
    best = min(rated, key=lambda trial: rank(experiment, trial), default=None)
    return {
        "id": number,
        "name": config["name"],
        "description": config.get("description"),
        "labels": labels_shown(experiment.spec),
        "state": f"STATE_{_experiment_state(experiment, rows)}",
        "startTime": time_of(experiment.created_at),
        "endTime": time_of(experiment.ended_at),
        "duration": int((experiment.ended_at or experiment.created_at) - experiment.created_at),
        "archived": experiment.archived,
        "progress": 1.0 if experiment.outcome is Outcome.COMPLETED else experiment.progress,
        "username": experiment.user,
        "displayName": "",
        "userId": user_id(experiment.user),
        "resourcePool": pool_of(experiment.spec, rows),
        "searcherType": config["searcher"]["name"],
        "searcherMetric": config["searcher"].get("metric"),
        "hyperparameters": config["hyperparameters"],
        "config": config,
        "originalConfig": json.dumps(config),
        "jobId": experiment.id,
        "numTrials": len(rows),
        "trialIds": [numbers[row.trial.run_id] for row in rows if row.trial.run_id in numbers],
        "forkedFrom": numbers.get(parent) if parent is not None else None,
        "bestTrialId": numbers.get(best.run_id) if best is not None else None,
        "bestTrialSearcherMetric": finite(best.best) if best is not None else None,
        "projectId": projects.number(experiment.project),
        "projectName": projects.shown(experiment.project),
        "projectOwnerId": user_id(experiment.user),
        "workspaceId": UNCATEGORIZED,
        "workspaceName": config.get("workspace") or NO_PROJECT,
        "parentArchived": False,
        "notes": experiment.spec.conventions.facts.get(NOTES, ""),
        "unmanaged": False,
    }


def _experiment_state(experiment: Experiment, rows: Sequence[TrialRow]) -> str:
    """Determined's name of the state: for an active experiment, that of its most advanced trial."""
    if experiment.state is not ExperimentState.ACTIVE:  # the other states are those of runs
        return status(Report(state=RunState(experiment.state.value), outcome=experiment.outcome))
    states = {row.run.state for row in rows if row.run is not None}
    ahead = next((each for each in (RunState.RUNNING, RunState.STARTING) if each in states), RunState.QUEUED)
    return status(Report(state=ahead))


def trial(
    row: TrialRow, experiment: Experiment, numbers: tuple[int, int], *, warm_start: str | None
) -> dict[str, Any]:
    """One trial, as far as its run is known, with the numbers of its experiment and its own.

    `warm_start` is the UUID of its initial checkpoint.
    """
    trial, run = row.trial, row.run
    task, metric = task_name(numbers[0], trial.run_id), experiment.search.metric
    return {
        "id": numbers[1],
        "experimentId": numbers[0],
        "state": f"STATE_{_trial_state(row)}",
        "startTime": time_of(run.created_at if run is not None else experiment.created_at),
        "endTime": time_of(run.ended_at if run is not None else experiment.ended_at),
        "hparams": encode(trial.parameters),
        "restarts": restarts_of(run) if run is not None else 0,
        "totalBatchesProcessed": int(trial.at or 0),
        "searcherMetricValue": finite(trial.best),
        "bestValidation": _validation(metric, trial.best, trial.best_at),
        "latestValidation": _validation(metric, trial.latest, trial.at),
        "taskId": task,
        "taskIds": [task],
        "runnerState": "",
        "wallClockTime": run.ran_s if run is not None else 0.0,
        "totalCheckpointSize": "0",
        "checkpointCount": 0,
        "warmStartCheckpointUuid": warm_start,
    }


def restarts_of(run: Run) -> int:
    """The number of a trial's restarts: the last failure restarts nothing."""
    return min(run.failures, run.spec.retries)


def _trial_state(row: TrialRow) -> str:
    """Determined's name of a trial's state."""
    if row.trial.end is not None:
        return _ENDS.get(row.trial.end, "ERROR")
    return run_state(row.run) if row.run is not None else "ERROR"


def run_state(run: Run) -> str:
    """Determined's name of the state of a run that is a trial."""
    return status(Report(state=run.state, outcome=run.outcome))


def pool_of(spec: RunSpec, rows: Sequence[TrialRow] = ()) -> str:
    """The resource pool: that to which a user moved the experiment, else that of its spec."""
    moved = next((row.run.place.pool for row in rows if row.run is not None and row.run.place.pool), None)
    return moved or spec.target.pool or DEFAULT_POOL


def config_of(spec: RunSpec) -> dict[str, Any]:
    """The configuration with secrets hidden: the completed one, or the equivalent of a native file."""
    found = spec.conventions.facts.get("config") if spec.conventions.system == "determined" else None
    if isinstance(found, Mapping):
        return dict(found)
    search = spec.search
    return {
        "name": spec.name,
        "description": spec.labels.get("description"),
        "project": spec.project,
        "labels": sorted(label for label in spec.labels if label != "description"),
        "hyperparameters": written_parameters(search) if search is not None else dict(spec.parameters or {}),
        "searcher": {
            "name": _NAMES.get(search.method, str(search.method)) if search is not None else "single",
            "metric": search.metric if search is not None else "",
            "smaller_is_better": search.smaller_is_better if search is not None else True,
        },
        "resources": {
            "slots_per_trial": spec.slots,
            "priority": of_tarmac(spec.priority),
            "weight": spec.weight,
            "resource_pool": spec.target.pool or "",
        },
        "max_restarts": spec.retries,
    }


def labels_shown(spec: RunSpec) -> list[str]:
    """The labels of an experiment."""
    return list(config_of(spec).get("labels") or ())


def _validation(metric: str, value: float | None, at: float | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {
        "metrics": metrics_record({metric: finite(value)}),
        "numInputs": 0,
        "totalBatches": int(at or 0),
        "endTime": None,
    }


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
