"""Requests of a task about itself: logs, code, trial, addresses of peers, preemption.

Listed in `application`.
"""

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool

from tarmac.control.reconcilers.deliver import launch_of
from tarmac.model.errors import InvalidInput
from tarmac.model.metrics import VALIDATION
from tarmac.model.run import Run
from tarmac.systems.determined.gateway.calls import Access, Call, Route, finite, time_of
from tarmac.systems.determined.gateway.gateway import task_name
from tarmac.systems.determined.gateway.model_definition import give_out
from tarmac.systems.determined.gateway.records import metrics_record, restarts_of, run_state, summary_metrics
from tarmac.systems.determined.gateway.tasks import task_of
from tarmac.systems.determined.identity import uuid_of


def _logs(call: Call) -> None:
    """Ignore lines of a worker: tarmac reads them from the worker's output."""
    task_of(call)
    call.typed("logs", list, "a list")


def own_trial(call: Call, run: Run) -> dict[str, Any]:
    """A trial in the form for its own code: with the last validation."""
    experiment = call.gateway.experiment_of(run)
    summaries = call.store.metrics.summaries([run.id])
    validated = [each for each in summaries if each.key.group == VALIDATION]
    last = max((each.last.step for each in validated if each.last.step is not None), default=None)
    metrics = {each.key.name: finite(each.last.value) for each in validated}
    return {
        "id": call.gateway.trial_number(run.id),
        "experimentId": experiment,
        "state": f"STATE_{run_state(run)}",
        "startTime": time_of(run.created_at),
        "endTime": time_of(run.ended_at),
        "hparams": dict(run.spec.parameters or {}),
        "restarts": restarts_of(run),
        "taskId": task_name(experiment, run.id),
        "totalBatchesProcessed": last or 0,
        "summaryMetrics": summary_metrics(summaries),
        "latestValidation": {"totalBatches": last, "metrics": metrics_record(metrics)}
        if last is not None
        else None,
    }


def _context(call: Call) -> Any:
    """The code of the task's run, as an archive."""
    return {"b64Tgz": give_out(task_of(call).run.code_digest, call.gateway.service.code)}


LONGEST_WAIT_S = 600.0
LOOK_S = 5.0
"""A change of a run wakes its waiters. Another server may have changed it, so waiters also poll."""

_PATH = "/api/v1/allocations/{allocation}"


async def _preemption(call: Call) -> Any:
    """Whether the task must leave; waits up to the timeout of the caller."""
    left = min(float(max(0, call.whole("timeout_seconds"))), LONGEST_WAIT_S)
    loop, changes = asyncio.get_running_loop(), call.gateway.service.changes
    task = await run_in_threadpool(task_of, call)
    end = loop.time() + left
    with changes.watch(task.run.id) as watch:
        while True:
            version = watch.version
            task = await run_in_threadpool(task_of, call)
            left = end - loop.time()
            if task.leaves or left <= 0 or changes.stopping:
                return {"preempt": task.leaves}
            await watch.after(version, min(left, LOOK_S))


def _rendezvous(call: Call) -> Any:
    """The addresses of all nodes by rank, and the rank of the caller."""
    task, control = task_of(call), call.plane.control
    launch = launch_of(control, task.run, task.attempt, dict(control.node_table().by_name))
    ids = {uuid_of("container", task.attempt.id, node.node): node.rank for node in launch.nodes}
    return {
        "rendezvousInfo": {
            "addresses": [node.address for node in launch.nodes],
            "rank": ids.get(call.path("resources"), 0),
            "slots": [sum(len(worker.slots) for worker in node.workers) for node in launch.nodes],
        }
    }


async def _all_gather(call: Call) -> Any:
    """The data of all peers, once every peer has sent its own."""
    task = await run_in_threadpool(task_of, call)
    peers, content = call.field("numPeers", 1), call.field("data")
    who = call.field("requestUuid") or call.field("resourcesId") or ""
    if type(peers) is not int or not 0 < peers <= 10_000 or not isinstance(who, str):
        raise InvalidInput("numPeers: the number of peers is expected; requestUuid: a text")
    key = (task.attempt.id, call.request.url.path)
    return {"data": await call.gateway.gatherings.gather(key, who, content, peers=peers)}


def _noted(call: Call) -> None:
    """Accepts reports of facts that tarmac observes itself: running nodes, slots, daemons of workers."""
    task_of(call)


_NOTED = (
    f"{_PATH}/signals/ack_preemption",
    f"{_PATH}/signals/pending_preemption",
    f"{_PATH}/resources/{{resources}}/daemon",
    f"{_PATH}/acceleratorData",
    f"{_PATH}/proxy_address",
    f"{_PATH}/ready",
    f"{_PATH}/waiting",
    "/api/v1/trials/{trial}/runner/metadata",
    "/api/v1/trials/profiler/metrics",
    "/api/v1/runs/start",
    "/api/v1/webhooks/custom",
)
ROUTES = (
    Route("POST", "/api/v1/task/logs", _logs, Access.TASK),
    Route("GET", "/api/v1/tasks/{task}/context_directory", _context, Access.TASK),
    Route("GET", f"{_PATH}/signals/preemption", _preemption, Access.TASK),
    Route("GET", f"{_PATH}/resources/{{resources}}/rendezvous", _rendezvous, Access.TASK),
    Route("POST", f"{_PATH}/all_gather", _all_gather, Access.TASK),
    Route("POST", f"{_PATH}/notify_container_running", _all_gather, Access.TASK),
    *(Route("POST", path, _noted, Access.TASK) for path in _NOTED),
)
