"""Coordinates the nodes of a trial: addresses, preemption, shared data. Listed in `application`."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool

from tarmac.control.reconcilers.deliver import launch_of
from tarmac.model.errors import InvalidInput
from tarmac.systems.determined.gateway.calls import Access, Call, Route, get, post
from tarmac.systems.determined.gateway.tasks import Task, task_of
from tarmac.systems.determined.identity import uuid_of

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
            if task.leaves or task.is_over or left <= 0 or changes.stopping:
                return {"preempt": task.leaves or task.is_over}
            await watch.after(version, min(left, LOOK_S))


def _rendezvous(call: Call) -> Any:
    """The addresses of all nodes by rank, and the rank of the caller."""
    task, control = task_of(call), call.gateway.service.plane.control
    launch = launch_of(control, task.run, task.attempt, dict(control.node_table().by_name))
    requested = call.path("resources")
    ranks = [node.rank for node in launch.nodes if resources_id(task, node.node) == requested]
    return {
        "rendezvousInfo": {
            "addresses": [node.address for node in launch.nodes],
            "rank": ranks[0] if ranks else 0,
            "slots": [sum(len(worker.slots) for worker in node.workers) for node in launch.nodes],
        }
    }


def resources_id(task: Task, node: str) -> str:
    """The name of an attempt's part on a node."""
    return uuid_of("container", task.attempt.id, node)


async def _all_gather(call: Call) -> Any:
    """The data of all peers, once every peer has sent its own."""
    task = await run_in_threadpool(task_of, call)
    peers, content = call.field("numPeers", 1), call.field("data")
    who = call.field("requestUuid") or call.field("resourcesId") or ""
    if type(peers) is not int or not 0 < peers <= 10_000 or not isinstance(who, str):
        raise InvalidInput("numPeers: the number of peers is expected; requestUuid: a text")
    key = (task.attempt.id, call.request.url.path)
    return {"data": await call.gateway.gatherings.gather(key, who, content, peers=peers)}


def _noted(call: Call) -> Any:
    """Accepts reports of facts that tarmac observes itself: running nodes, slots, daemons of workers."""
    task_of(call)
    return {}


def _noting(*paths: str) -> list[Route]:
    return [post(f"{_PATH}/{path}", _noted, Access.TASK) for path in paths]


ROUTES = (
    get(f"{_PATH}/signals/preemption", _preemption, Access.TASK),
    get(f"{_PATH}/resources/{{resources}}/rendezvous", _rendezvous, Access.TASK),
    post(f"{_PATH}/all_gather", _all_gather, Access.TASK),
    post(f"{_PATH}/notify_container_running", _all_gather, Access.TASK),
    *_noting(
        "signals/ack_preemption",
        "signals/pending_preemption",
        "resources/{resources}/daemon",
        "acceleratorData",
        "proxy_address",
        "ready",
        "waiting",
    ),
)
