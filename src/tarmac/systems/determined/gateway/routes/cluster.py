"""`det agent`, `det slot`, `det task list`, resource pools: machines and active runs.

Listed in `application`.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from tarmac.api.cluster_operations import NodeChoice
from tarmac.control.permissions import may_see
from tarmac.control.reports import NodeReport
from tarmac.model.actor import Action
from tarmac.model.cluster import NodeState, Packing, Policy, Pool
from tarmac.model.errors import NotFound, Refused
from tarmac.model.resources import CPU_ONLY
from tarmac.model.run import Attempt, Run
from tarmac.systems.determined.gateway.calls import Call, Route, time_of
from tarmac.systems.determined.gateway.changing import snake
from tarmac.systems.determined.gateway.gateway import VERSION, Gateway, task_name
from tarmac.systems.determined.gateway.records import pool_of
from tarmac.systems.determined.identity import uuid_of
from tarmac.systems.determined.statuses import USUAL, of_tarmac


def _agents(call: Call) -> Any:
    holders = _holders(call.gateway)
    return call.page(
        "agents", call.plane.nodes(call.actor), lambda part: [_agent(call, each, holders) for each in part]
    )


def _one(call: Call) -> Any:
    [report] = call.plane.nodes(call.actor, NodeChoice(names=(call.path("agent"),)))
    return _shown(call, report)


def _shown(call: Call, report: NodeReport) -> dict[str, Any]:
    """The agent, or the slot of it in the path; raises NotFound."""
    agent, slot = _agent(call, report, _holders(call.gateway)), _slot_number(call)
    if slot is None:
        return {"agent": agent}
    if str(slot) not in agent["slots"]:
        raise NotFound(f"agent {report.node.name} has no slot {slot}")
    return {"slot": agent["slots"][str(slot)]}


def _slot_number(call: Call) -> int | None:
    return call.number("slot") if "slot" in call.request.path_params else None


Holders = Mapping[tuple[str, int], Attempt]
"""The attempt that holds a slot, by node and number of the slot."""


def _holders(gateway: Gateway) -> Holders:
    return {
        (placement.node, slot): attempt
        for _, attempt in gateway.plane.control.live()
        if attempt is not None
        for placement in attempt.current_allocation.placements
        for slot in placement.slots
    }


def _container(attempt: Attempt, node: str) -> dict[str, Any]:
    return {"id": uuid_of("container", attempt.id, node), "state": "STATE_RUNNING", "devices": []}


def _agent(call: Call, report: NodeReport, holders: Holders) -> dict[str, Any]:
    node = report.node
    drained = node.state is not NodeState.UP
    kind = "TYPE_CPU" if node.capacity.slot_type == CPU_ONLY else "TYPE_CUDA"
    slots = {str(slot): _slot(report, slot, kind, holders) for slot in range(node.capacity.slots)}
    running = [_container(each, node.name) for (name, _), each in holders.items() if name == node.name]
    stats = {
        "states": {"STATE_RUNNING": report.slots_used},
        "disabled": sum(not each["enabled"] for each in slots.values()),
        "draining": sum(each["draining"] for each in slots.values()),
        "total": len(slots),
    }
    return {
        "id": node.name,
        "version": VERSION,
        "registeredTime": time_of(call.gateway.service.started_at),
        "addresses": [node.address],
        "resourcePools": [node.pool],
        "enabled": not drained,
        "draining": drained and bool(report.runs),
        "slots": slots,
        "containers": {each["id"]: each for each in running},
        "slotStats": {"typeStats": {kind: stats}, "brandStats": {node.capacity.slot_type or "": stats}},
    }


def _slot(report: NodeReport, slot: int, kind: str, holders: Holders) -> dict[str, Any]:
    node, holder = report.node, holders.get((report.node.name, slot))
    enabled = node.state is NodeState.UP and not node.drained_slots >> slot & 1
    return {
        "id": str(slot),
        "device": {"id": slot, "brand": node.capacity.slot_type, "uuid": "", "type": kind},
        "enabled": enabled,
        "draining": not enabled and holder is not None,
        "container": _container(holder, node.name) if holder is not None else None,
    }


def _drain(call: Call, *, drained: bool) -> Any:
    """Stop or resume assigning work to an agent, or to a slot. Runs leave it unless it is to drain."""
    choice, slot = NodeChoice(names=(call.path("agent"),)), _slot_number(call)
    reason = "det agent disable" if slot is None else ""
    [report] = call.plane.set_drained(call.actor, choice, drained, reason, slot)
    if drained and call.field("drain", False) is not True:
        holders = _holders(call.gateway).items()
        there = {each.run_id for place, each in holders if place == (report.node.name, slot)}
        for run_id in there if slot is not None else {each.id for each in report.runs}:
            with suppress(Refused):  # the run is leaving already
                call.plane.pause(call.actor, run_id)
                call.plane.resume(call.actor, run_id)  # queued again, with its checkpoint
    return _shown(call, report)


_AGENT = "/api/v1/agents/{agent}"
_ENABLE, _DISABLE = partial(_drain, drained=False), partial(_drain, drained=True)

AUX_CONTAINERS = 100
"""Determined's default limit of tasks without slots for each agent; tarmac has no such limit."""


def default_pool(call: Call) -> str | None:
    """The pool of requests without one: the first of the server's own cluster."""
    return next((pool.name for pool in call.plane.pools(call.actor)), None)


def _pools(call: Call) -> Any:
    plane = call.plane
    nodes = plane.nodes(call.actor)
    pools = list(plane.pools(call.actor))
    return call.page("resourcePools", [_pool(pool, nodes, first=pool is pools[0]) for pool in pools])


def _pool(pool: Pool, nodes: list[NodeReport], *, first: bool) -> dict[str, Any]:
    own = [each for each in nodes if (each.node.cluster, each.node.pool) == pool.key]
    slots = sum(each.node.capacity.slots for each in own)
    accelerated = any(each.node.capacity.slot_type != CPU_ONLY for each in own)
    fair = pool.policy is Policy.FAIR_SHARE
    priorities = {"preemption": pool.preemption, "defaultPriority": USUAL, "k8Priorities": []}
    texts = dict.fromkeys(
        (
            *("agentDockerImage", "agentDockerNetwork", "agentDockerRuntime", "agentFluentImage", "imageId"),
            *("containerStartupScript", "instanceType", "masterCertName", "masterUrl", "startupScript"),
        ),
        "",
    )
    numbers = dict.fromkeys(
        ("auxContainersRunning", "maxAgentStartingPeriod", "maxIdleAgentPeriod", "minAgents"), 0
    )
    return {
        **texts,
        **numbers,
        "name": pool.name,
        "description": f"the pool {pool.name} of the cluster {pool.cluster}",
        "clusterName": pool.cluster,
        "resourceManagerName": pool.cluster,
        "resourceManagerMetadata": {"name": pool.cluster},
        "type": "RESOURCE_POOL_TYPE_STATIC",
        "location": "on-prem",
        "numAgents": len(own),
        "maxAgents": len(own),
        "slotsAvailable": slots,
        "slotsUsed": sum(each.slots_used for each in own),
        "slotsPerAgent": max((each.node.capacity.slots for each in own), default=0),
        "slotType": "TYPE_CUDA" if accelerated else "TYPE_CPU",
        "accelerator": ", ".join(sorted({each.node.capacity.slot_type or "" for each in own})),
        "auxContainerCapacity": AUX_CONTAINERS * len(own),
        "auxContainerCapacityPerAgent": AUX_CONTAINERS,
        "defaultComputePool": first,
        "defaultAuxPool": first,
        "preemptible": pool.preemption,
        "schedulerType": "SCHEDULER_TYPE_FAIR_SHARE" if fair else "SCHEDULER_TYPE_PRIORITY",
        "schedulerFittingPolicy": f"FITTING_POLICY_{'BEST' if pool.packing is Packing.PACK else 'WORST'}",
        "details": {"priorityScheduler": None if fair else priorities},
        "stats": {"queuedCount": 0, "scheduledCount": 0},
    }


def _tasks(call: Call) -> Any:
    """Every active attempt as the allocation of a task."""
    live = [each for each in call.plane.control.live() if may_see(call.actor, each[0])]
    records = [_task(call.gateway, run, attempt) for run, attempt in live if attempt is not None]
    return {"allocationIdToSummary": {each["allocationId"]: each for each in records}}


def _old_tasks(call: Call) -> Any:
    """The list in the form of 0.23 and 0.24."""
    found = {}
    for key, each in _tasks(call)["allocationIdToSummary"].items():
        items = [
            {snake(name): item[name] for name in item if name != "allocationId"} for item in each["resources"]
        ]
        found[key] = {snake(name): value for name, value in each.items()} | {"resources": items}
    return found


def _task(gateway: Gateway, run: Run, attempt: Attempt) -> dict[str, Any]:
    number, trial = gateway.experiment_of(run), run.spec.trial
    task = task_name(number, run.id)
    allocation = f"{task}.{attempt.number}"
    resources = [
        {
            "resourcesId": uuid_of("container", attempt.id, node),
            "resourcesType": "docker-container",
            "allocationId": allocation,
            "containerId": uuid_of("container", attempt.id, node),
            "agentDevices": {node: {"devices": []}},
        }
        for node in attempt.allocation.nodes
    ]
    return {
        "taskId": task,
        "allocationId": allocation,
        "name": f"Trial {trial.number if trial is not None else 1} (Experiment {number})",
        "registeredTime": time_of(attempt.created_at),
        "resourcePool": pool_of(run.spec),
        "slotsNeeded": run.spec.slots,
        "priority": of_tarmac(run.place.priority),
        "schedulerType": "priority",
        "resources": resources,
        "proxyPorts": [],
    }


ROUTES = (
    Route("GET", "/api/v1/resource-pools", _pools),
    Route("GET", "/api/v1/agents", _agents),
    Route("GET", _AGENT, _one),
    Route("GET", f"{_AGENT}/slots/{{slot}}", _one),
    Route("POST", f"{_AGENT}/enable", _ENABLE, action=Action.MANAGE),
    Route("POST", f"{_AGENT}/disable", _DISABLE, action=Action.MANAGE),
    Route("POST", f"{_AGENT}/slots/{{slot}}/enable", _ENABLE, action=Action.MANAGE),
    Route("POST", f"{_AGENT}/slots/{{slot}}/disable", _DISABLE, action=Action.MANAGE),
    Route("GET", "/api/v1/tasks", _tasks),
    Route("GET", "/tasks", _old_tasks),
)
