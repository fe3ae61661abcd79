"""Requests of a task about itself: code, peers, preemption, metrics, progress, search operations.

A trial from before 0.38 asks for its length, trains, reports the result, and asks again: the search extends
the trial or ends it. Then the trial exits; a search that promotes trials may continue it later. Listed in
`application`.
"""

import asyncio
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from tarmac.control.permissions import may_see
from tarmac.control.reconcilers.deliver import launch_of
from tarmac.model.errors import InvalidInput, NotFound
from tarmac.model.lifecycle import ExperimentState, TrialState
from tarmac.model.metrics import TRAINING, VALIDATION
from tarmac.model.run import Run
from tarmac.model.run_records import NumberKind, RunRecordKind
from tarmac.systems.determined.gateway import reporting
from tarmac.systems.determined.gateway.calls import Access, Call, Route, framed, inner, seconds_of, whole
from tarmac.systems.determined.gateway.checkpoints import reported
from tarmac.systems.determined.gateway.model_definition import give_out
from tarmac.systems.determined.gateway.records import report_record, whole_reports
from tarmac.systems.determined.gateway.tasks import Task, task_of, task_record
from tarmac.systems.determined.identity import uuid_of


def _logs(call: Call) -> None:
    """Ignore lines of a worker: tarmac reads them from the worker's output."""
    task_of(call)
    call.typed("logs", list, "a list")


def _context(call: Call) -> Any:
    """The code of the task's run, as an archive."""
    return {"b64Tgz": give_out(task_of(call).run.code_digest, call.gateway.service.code)}


LONGEST_WAIT_S = 600.0
POLL_S = 5.0
"""A change of a run wakes its waiters. Another server may have changed it, so waiters also poll."""

_PATH = "/api/v1/allocations/{allocation}"


async def _preemption(call: Call) -> Any:
    """Whether the task must leave; waits up to the timeout of the caller."""
    wait_s = min(float(max(0, call.whole("timeout_seconds"))), LONGEST_WAIT_S)
    async for task, over in _watched(call, wait_s, POLL_S):
        if task.leaves or over:
            return {"preempt": task.leaves}


async def _watched(call: Call, wait_s: float, poll_s: float) -> AsyncIterator[tuple[Task, bool]]:
    """The calling task, and again after each change; with whether the time is over, or the server stops."""
    loop, changes = asyncio.get_running_loop(), call.gateway.service.changes
    end = loop.time() + wait_s
    task = await run_in_threadpool(task_of, call)
    with changes.watch(task.run.id) as watch:
        while True:
            version = watch.version
            task = await run_in_threadpool(task_of, call)
            left_s = end - loop.time()
            yield task, left_s <= 0 or changes.stopping
            await watch.after(version, min(left_s, poll_s))


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


_INVALID = "INVALID_HP"
_METADATA = "metadata"


def _metrics(call: Call) -> None:
    """Store metrics of any group."""
    _take(call, call.field("metrics"), call.field("group", TRAINING))


def _older_metrics(call: Call, name: str, group: str) -> None:
    """Store metrics from before there were groups: the body, or its field of this name."""
    _take(call, call.field(name) or call.body, group)


def _take(call: Call, found: Any, group: Any) -> None:
    values = inner(found, "metrics", "avgMetrics")
    if not isinstance(values, Mapping) or not isinstance(group, str):
        raise InvalidInput("metrics: {stepsCompleted, metrics: {avgMetrics: {...}}} is expected")
    task, step, at = task_of(call), found.get("stepsCompleted"), found.get("reportTime")
    report = reporting.report_of(
        call,
        group=group,
        step=None if step is None else whole("stepsCompleted", step),
        metrics=values,
        at=None if at is None else seconds_of(str(at)),
    )
    news = report if group == VALIDATION and not reporting.completes_operations(task) else None
    reporting.take(call, task, (report,), news=news)


def _progress(call: Call) -> None:
    """Store progress: a fraction, or a length relative to that of the search (also as a bare number)."""
    task = task_of(call)
    given = call.field("progress") if isinstance(call.body, Mapping) else call.body
    if type(given) not in (int, float) or not math.isfinite(given):
        raise InvalidInput("progress: a number is expected")
    raw = call.field("is_raw", False) is True or call.field("isRaw", False) is True
    whole = None if raw else reporting.length_of(task)
    progress = min(1.0, given / whole) if whole else min(1.0, float(given))
    reporting.take(
        call,
        task,
        (reporting.report_of(call, group=TRAINING, step=None, metrics={}, progress=progress),),
        news=None,
    )


def _early_exit(call: Call) -> None:
    """Record that the trial ends by itself; if its hyperparameters are invalid, notify the search."""
    task = task_of(call)
    if _INVALID in str(call.field("reason", "")) and task.trial is not None:
        call.plane.experiments.reject_trial(call.actor, task.run.id)


def _put_metadata(call: Call) -> Any:
    task, metadata = task_of(call), call.typed("metadata", dict, "a mapping")
    call.gateway.records.put(task_record(call, task, RunRecordKind.METADATA, _METADATA, metadata))
    return {"metadata": metadata}


def _get_metadata(call: Call) -> Any:
    run_id = call.gateway.numbers.numbered(NumberKind.TRIAL, call.number("run")) or ""
    run = call.store.run(run_id)
    visible = run is not None and may_see(call.actor, run)
    found = call.gateway.records.of(run_id, RunRecordKind.METADATA) if visible else []
    return {"metadata": next((dict(each.body) for each in found if each.name == _METADATA), None)}


def _source(call: Call) -> Any:
    """Record that a trial uses a checkpoint for inference; its reports can be found by that checkpoint."""
    task, info = task_of(call), call.field("trialSourceInfo")
    uuid = inner(info, "checkpointUuid")
    if not isinstance(uuid, str) or reported(call, uuid) is None:
        raise NotFound(f"checkpoint not found: {uuid!r:.60}")
    record = task_record(call, task, RunRecordKind.METADATA, source_name(uuid), dict(info))
    call.gateway.records.put(record)
    return {"trialId": call.gateway.trial_number(task.run.id), "checkpointUuid": uuid}


def source_name(checkpoint: str) -> str:
    """The record name for the use of a checkpoint by a run."""
    return f"source {checkpoint}"


DECISION_S = 60.0
"""Maximum time for a search to decide on a trial; after that the trial ends."""

LOOK_S = 0.2


async def _operation(call: Call) -> Any:
    async for task, over in _watched(call, DECISION_S, LOOK_S):
        done, length = (
            await run_in_threadpool(reporting.completed_length, call, task),
            reporting.length_of(task) or 1,
        )
        if length > done or over or not _undecided(task):
            return {"op": {"validateAfter": {"length": str(length)}}, "completed": length <= done}


def _undecided(task: Task) -> bool:
    """Whether the search may still extend a trial that has completed its length."""
    experiment, trial = task.experiment, task.trial
    return (
        experiment is not None
        and trial is not None
        and experiment.search.promotion
        and experiment.state is ExperimentState.ACTIVE
        and trial.state is TrialState.OPEN
        and not task.leaves
    )


def _completed(call: Call) -> None:
    """Record a completed operation, and notify the search once for each length."""
    task, length = task_of(call), inner(call.body, "op", "length")
    if isinstance(length, str) and length.isdecimal():
        length = int(length)
    if type(length) is not int or length < 0:
        raise InvalidInput("op: {length: N} is expected")
    if length <= reporting.completed_length(call, task):
        return  # a repeated request
    name = task.searcher.get("metric")
    news = None
    if isinstance(name, str) and task.experiment is not None and task.experiment.search.promotion:
        metrics = {name: call.field("searcherMetric")}
        news = reporting.report_of(call, group=VALIDATION, step=length, metrics=metrics)
    record = task_record(call, task, RunRecordKind.SEARCH, "completed", {"length": length})
    reporting.take(call, task, (), news=news, records=(record,))


_AT_ONCE = 1000
"""Number of reports in one line of a stream."""


def _stream(call: Call, group: str | None = None) -> StreamingResponse:
    """The reports of a group, or else of the requested group, trial by trial."""
    numbers = [whole("trialIds", text) for text in call.texts("trialIds")]
    if not numbers:
        raise InvalidInput("trialIds: the number of a trial is expected")
    runs = [call.run_of_trial(number) for number in numbers]
    lines = _lines(call, runs, group or call.text("group"))
    return StreamingResponse(lines, media_type="application/json")


def _lines(call: Call, runs: list[Run], group: str | None) -> Iterator[bytes]:
    for run in runs:
        found = _reports(call, run, group)
        for begin in range(0, len(found), _AT_ONCE):
            yield framed({"metrics": found[begin : begin + _AT_ONCE]})


def _reports(call: Call, run: Run, group: str | None) -> list[dict[str, Any]]:
    number = call.gateway.trial_number(run.id)
    found = whole_reports(call.store.metrics, run, group)
    return [report_record(each, trial=number, place=place) for place, each in enumerate(found, start=1)]


def _of_checkpoint(call: Call) -> Any:
    """The reports of trials that used a checkpoint for inference."""
    records = call.gateway.records.named(RunRecordKind.METADATA, source_name(call.path("checkpoint")))
    loaded = call.store.load_runs([each.run_id for each in records]).values()
    runs = [run for run in loaded if may_see(call.actor, run)]
    group = call.text("metricGroup")
    return {"metrics": [report for run in runs for report in _reports(call, run, group)]}


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
_TRIAL = "/api/v1/trials/{trial}"
_TRAINED = partial(_older_metrics, name="trainingMetrics", group=TRAINING)
_VALIDATED = partial(_older_metrics, name="validationMetrics", group=VALIDATION)

ROUTES = (
    *(Route("POST", path, _noted, Access.TASK) for path in _NOTED),  # first: "profiler" is no trial
    Route("POST", f"{_TRIAL}/metrics", _metrics, Access.TASK),
    Route("POST", f"{_TRIAL}/training_metrics", _TRAINED, Access.TASK),
    Route("POST", f"{_TRIAL}/validation_metrics", _VALIDATED, Access.TASK),
    Route("POST", f"{_TRIAL}/progress", _progress, Access.TASK),
    Route("POST", f"{_TRIAL}/early_exit", _early_exit, Access.TASK),
    Route("POST", "/api/v1/runs/{run}/metadata", _put_metadata, Access.TASK),
    Route("GET", "/api/v1/runs/{run}/metadata", _get_metadata, Access.TASK),
    Route("POST", "/api/v1/trial-source-info", _source, Access.TASK),
    Route("GET", f"{_TRIAL}/searcher/operation", _operation, Access.TASK),
    Route("POST", f"{_TRIAL}/searcher/completed_operation", _completed, Access.TASK),
    Route("GET", "/api/v1/trials/metrics/trial_metrics", _stream, Access.TASK),
    Route("GET", "/api/v1/trials/metrics/training_metrics", partial(_stream, group=TRAINING), Access.TASK),
    Route(
        "GET", "/api/v1/trials/metrics/validation_metrics", partial(_stream, group=VALIDATION), Access.TASK
    ),
    Route("GET", "/api/v1/checkpoints/{checkpoint}/metrics", _of_checkpoint, Access.TASK),
    Route("POST", "/api/v1/task/logs", _logs, Access.TASK),
    Route("GET", "/api/v1/tasks/{task}/context_directory", _context, Access.TASK),
    Route("GET", f"{_PATH}/signals/preemption", _preemption, Access.TASK),
    Route("GET", f"{_PATH}/resources/{{resources}}/rendezvous", _rendezvous, Access.TASK),
    Route("POST", f"{_PATH}/all_gather", _all_gather, Access.TASK),
    Route("POST", f"{_PATH}/notify_container_running", _all_gather, Access.TASK),
)
