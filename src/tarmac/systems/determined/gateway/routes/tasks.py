"""Requests of a task about itself: logs, its code, its trial. Listed in `application`."""

from __future__ import annotations

import base64
from typing import Any

from tarmac.model.errors import InvalidInput
from tarmac.model.metrics import VALIDATION
from tarmac.model.run import Run
from tarmac.systems.determined.gateway.calls import Access, Call, get, post
from tarmac.systems.determined.gateway.model_definition import give_out
from tarmac.systems.determined.gateway.numbering import experiment_number, task_name, trial_number
from tarmac.systems.determined.gateway.records.experiments import restarts_of, run_state
from tarmac.systems.determined.gateway.records.metrics import summary_metrics
from tarmac.systems.determined.gateway.records.written import finite, time_of
from tarmac.systems.determined.gateway.tasks import task_of


def _logs(call: Call) -> Any:
    """Ignore lines of a worker: tarmac reads them from the worker's output."""
    task_of(call)
    if not isinstance(call.field("logs", []), list):
        raise InvalidInput("logs: a list is expected")
    return {}


def own_trial(call: Call, run: Run) -> dict[str, Any]:
    """A trial in the form for its own code: with the last validation."""
    trial = run.spec.trial
    experiment = experiment_number(call.gateway, trial.experiment if trial is not None else run.id)
    summaries = call.gateway.service.plane.control.store.metrics.summaries([run.id])
    steps = [each.last.step for each in summaries if each.key.group == VALIDATION]
    last = max((step for step in steps if step is not None), default=None)
    metrics = {each.key.name: finite(each.last.value) for each in summaries if each.key.group == VALIDATION}
    return {
        "id": trial_number(call.gateway, run.id),
        "experimentId": experiment,
        "state": f"STATE_{run_state(run)}",
        "startTime": time_of(run.created_at),
        "endTime": time_of(run.ended_at),
        "hparams": dict(run.spec.parameters or {}),
        "restarts": restarts_of(run),
        "taskId": task_name(experiment, run.id),
        "totalBatchesProcessed": last or 0,
        "summaryMetrics": summary_metrics(summaries),
        "latestValidation": None
        if last is None
        else {"totalBatches": last, "metrics": {"avgMetrics": metrics, "batchMetrics": []}},
    }


def _context(call: Call) -> Any:
    """The code of the task's run, as an archive."""
    task = task_of(call)
    archive = give_out(task.run.code_digest, call.gateway.service.code)
    return {"b64Tgz": base64.b64encode(archive).decode()}


ROUTES = (
    post("/api/v1/task/logs", _logs, Access.TASK),
    get("/api/v1/tasks/{task}/context_directory", _context, Access.TASK),
)
