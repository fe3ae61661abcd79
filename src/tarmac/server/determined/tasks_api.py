"""What a task ships and asks of itself: logs, its code, its trial. Listed in `route_list`."""

from __future__ import annotations

import base64
from typing import Any

from tarmac.model.errors import InvalidInput
from tarmac.model.metrics import VALIDATION
from tarmac.server.determined.calls import Access, Call, get, post
from tarmac.server.determined.model_definition import give_out
from tarmac.server.determined.tasks import Task, task_of


def _logs(call: Call) -> Any:
    """Lines of a worker: tarmac has them already, as the worker wrote them."""
    task_of(call)
    if not isinstance(call.field("logs", []), list):
        raise InvalidInput("logs: a list is expected")
    return {}


def own_trial(call: Call, task: Task) -> dict[str, Any]:
    """A trial as far as its own code asks: what was validated last."""
    number = call.number("trial")
    summaries = call.gateway.service.plane.control.store.metrics.summaries([task.run.id])
    steps = [each.last.step for each in summaries if each.key.group == VALIDATION]
    last = max((step for step in steps if step is not None), default=None)
    metrics = {each.key.name: each.last.value for each in summaries if each.key.group == VALIDATION}
    return {
        "id": number,
        "state": "STATE_RUNNING",
        "hparams": dict(task.run.spec.parameters or {}),
        "restarts": task.run.failures,
        "totalBatchesProcessed": last or 0,
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
