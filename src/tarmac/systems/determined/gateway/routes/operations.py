"""The search operations of trials from before 0.38. Listed in `application`.

A trial asks for its length, trains, reports the result, and asks again: the search extends the trial or ends
it. Then the trial exits; a search that promotes trials may continue it later.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool

from tarmac.model.errors import InvalidInput
from tarmac.model.experiment import ExperimentState, TrialState
from tarmac.model.metrics import VALIDATION
from tarmac.systems.determined.gateway.calls import Access, Call, get, post
from tarmac.systems.determined.gateway.reporting import report_of, take
from tarmac.systems.determined.gateway.searching import completed_length, completion, length_of
from tarmac.systems.determined.gateway.tasks import Task, task_of

DECISION_S = 60.0
"""Maximum time for a search to decide on a trial; after that the trial ends."""

LOOK_S = 0.2


async def _operation(call: Call) -> Any:
    loop = asyncio.get_running_loop()
    end = loop.time() + DECISION_S
    task = await run_in_threadpool(task_of, call)
    changes = call.gateway.service.changes
    with changes.watch(task.run.id) as watch:
        while True:
            version = watch.version
            task = await run_in_threadpool(task_of, call)
            done, length = await run_in_threadpool(completed_length, call, task), length_of(task) or 1
            if length > done or not _undecided(task) or changes.stopping or loop.time() > end:
                return _answer(length, completed=length <= done)
            await watch.after(version, LOOK_S)


def _undecided(task: Task) -> bool:
    """Whether the search may still extend a trial that has completed its length."""
    experiment, trial = task.experiment, task.trial
    if experiment is None or trial is None or not experiment.search.promotion:
        return False
    return (
        experiment.state is ExperimentState.ACTIVE
        and trial.state is TrialState.OPEN
        and not task.leaves
        and not task.is_over
    )


def _answer(length: int, *, completed: bool) -> dict[str, Any]:
    return {"op": {"validateAfter": {"length": str(length)}}, "completed": completed}


def _completed(call: Call) -> Any:
    """Record a completed operation, and notify the search once for each length."""
    task, metric = task_of(call), call.field("searcherMetric")
    operation = call.field("op", {})
    length = operation.get("length") if isinstance(operation, dict) else None
    if isinstance(length, str) and length.isdecimal():
        length = int(length)
    if type(length) is not int or length < 0:
        raise InvalidInput("op: {length: N} is expected")
    if length <= completed_length(call, task):
        return {}  # a repeated request
    name = task.searcher.get("metric")
    news = None
    if isinstance(name, str) and task.experiment is not None and task.experiment.search.promotion:
        news = report_of(call, group=VALIDATION, step=length, metrics={name: metric})
    take(call, task, (), news=news, records=(completion(call, task, length),))
    return {}


ROUTES = (
    get("/api/v1/trials/{trial}/searcher/operation", _operation, Access.TASK),
    post("/api/v1/trials/{trial}/searcher/completed_operation", _completed, Access.TASK),
)
