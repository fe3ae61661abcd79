"""Reports of a trial about itself: metrics, progress, its end, metadata. Listed in `application`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tarmac.model.errors import InvalidInput, NotFound
from tarmac.model.metrics import TRAINING, VALIDATION
from tarmac.model.numbering import NumberKind
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.systems.determined.gateway.calls import Access, Call, get, post, whole
from tarmac.systems.determined.gateway.numbering import trial_number
from tarmac.systems.determined.gateway.records.written import seconds_of
from tarmac.systems.determined.gateway.reporting import report_of, take
from tarmac.systems.determined.gateway.searching import completes_operations, length_of
from tarmac.systems.determined.gateway.tasks import task_of
from tarmac.systems.determined.gateway.trial_checkpoints import reported

_INVALID = "INVALID_HP"
_METADATA = "metadata"


def _metrics(call: Call) -> Any:
    """Store metrics of any group."""
    return _take(call, call.field("metrics"), call.field("group", TRAINING))


def _training(call: Call) -> Any:
    return _take(call, _older(call, "trainingMetrics"), TRAINING)


def _validation(call: Call) -> Any:
    return _take(call, _older(call, "validationMetrics"), VALIDATION)


def _older(call: Call, name: str) -> Any:
    """The body of a route from before there were groups: the body itself, or its field of this name."""
    return call.field(name) or call.body


def _take(call: Call, found: Any, group: Any) -> Any:
    metrics = found.get("metrics") if isinstance(found, Mapping) else None
    values = metrics.get("avgMetrics") if isinstance(metrics, Mapping) else None
    if not isinstance(values, Mapping) or not isinstance(group, str):
        raise InvalidInput("metrics: {stepsCompleted, metrics: {avgMetrics: {...}}} is expected")
    task, step, at = task_of(call), found.get("stepsCompleted"), found.get("reportTime")
    report = report_of(
        call,
        group=group,
        step=None if step is None else whole("stepsCompleted", step),
        metrics=values,
        at=None if at is None else seconds_of(str(at)),
    )
    news = report if group == VALIDATION and not completes_operations(task) else None
    take(call, task, (report,), news=news)
    return {}


def _progress(call: Call) -> Any:
    """Store progress: a fraction, or a length relative to that of the search (also as a bare number)."""
    task = task_of(call)
    given = call.field("progress") if isinstance(call.body, Mapping) else call.body
    if type(given) not in (int, float) or not math.isfinite(given):
        raise InvalidInput("progress: a number is expected")
    raw = call.field("is_raw", False) is True or call.field("isRaw", False) is True
    whole = None if raw else length_of(task)
    progress = min(1.0, given / whole) if whole else min(1.0, float(given))
    take(call, task, (report_of(call, group=TRAINING, step=None, metrics={}, progress=progress),), news=None)
    return {}


def _early_exit(call: Call) -> Any:
    """Record that the trial ends by itself; if its hyperparameters are invalid, notify the search."""
    task = task_of(call)
    if _INVALID in str(call.field("reason", "")) and task.trial is not None:
        call.gateway.service.plane.experiments.reject_trial(call.actor, task.run.id)
    return {}


def _noted(call: Call) -> Any:
    task_of(call)
    return {}


def _put_metadata(call: Call) -> Any:
    task, metadata = task_of(call), call.field("metadata", {})
    if not isinstance(metadata, Mapping):
        raise InvalidInput("metadata: a mapping is expected")
    record = RunRecord(
        run_id=task.run.id,
        kind=RunRecordKind.METADATA,
        name=_METADATA,
        attempt=task.attempt.number,
        at=call.gateway.service.clock.now(),
        body=metadata,
    )
    call.gateway.records.put(record)
    return {"metadata": dict(metadata)}


def _get_metadata(call: Call) -> Any:
    run_id = call.gateway.numbers.numbered(NumberKind.TRIAL, call.number("run"))
    found = call.gateway.records.of(run_id, RunRecordKind.METADATA) if run_id is not None else []
    return {"metadata": next((dict(each.body) for each in found if each.name == _METADATA), None)}


def _source(call: Call) -> Any:
    """Record that a trial uses a checkpoint for inference; its reports can be found by that checkpoint."""
    task, info = task_of(call), call.field("trialSourceInfo", {})
    uuid = info.get("checkpointUuid") if isinstance(info, Mapping) else None
    if not isinstance(uuid, str) or reported(call, uuid) is None:
        raise NotFound(f"checkpoint not found: {uuid!r:.60}")
    record = RunRecord(
        run_id=task.run.id,
        kind=RunRecordKind.METADATA,
        name=source_name(uuid),
        attempt=task.attempt.number,
        at=call.gateway.service.clock.now(),
        body=dict(info),
    )
    call.gateway.records.put(record)
    return {"trialId": trial_number(call.gateway, task.run.id), "checkpointUuid": uuid}


def source_name(checkpoint: str) -> str:
    """The record name for the use of a checkpoint by a run."""
    return f"source {checkpoint}"


def own_best(call: Call) -> Any:
    """The best validation of the search metric, over all trials of the calling task's experiment.

    Raises NotFound before the first validation.
    """
    task, store = task_of(call), call.gateway.service.plane.control.store
    searcher = task.searcher
    trials = store.experiments.trials(task.experiment.id) if task.experiment is not None else []
    run_ids = [trial.run_id for trial in trials] or [task.run.id]
    smaller = searcher.get("smaller_is_better") is not False
    found = [
        extreme.value
        for each in store.metrics.summaries(run_ids)
        if each.key.group == VALIDATION and each.key.name == searcher.get("metric")
        if (extreme := each.low if smaller else each.high) is not None
    ]
    if not found:
        raise NotFound("no validation was reported yet")
    return {"metric": min(found) if smaller else max(found)}


ROUTES = (
    post("/api/v1/trials/{trial}/metrics", _metrics, Access.TASK),
    post("/api/v1/trials/{trial}/training_metrics", _training, Access.TASK),
    post("/api/v1/trials/{trial}/validation_metrics", _validation, Access.TASK),
    post("/api/v1/trials/{trial}/progress", _progress, Access.TASK),
    post("/api/v1/trials/{trial}/early_exit", _early_exit, Access.TASK),
    post("/api/v1/trials/{trial}/runner/metadata", _noted, Access.TASK),
    post("/api/v1/trials/profiler/metrics", _noted, Access.TASK),
    post("/api/v1/runs/start", _noted, Access.TASK),
    post("/api/v1/runs/{run}/metadata", _put_metadata, Access.TASK),
    get("/api/v1/runs/{run}/metadata", _get_metadata, Access.TASK),
    post("/api/v1/trial-source-info", _source, Access.TASK),
    post("/api/v1/webhooks/custom", _noted, Access.TASK),
)
