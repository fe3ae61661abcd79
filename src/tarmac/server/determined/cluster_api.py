"""`det agent`, `slot`, `task list`, resource pools: what there is to run on. Listed in `route_list`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarmac.control.draining import NodeChoice
from tarmac.control.reports import NodeReport
from tarmac.dialects.determined.identity import uuid_of
from tarmac.dialects.determined.statuses import USUAL, of_tarmac
from tarmac.model.cluster import NodeState, Packing, Policy, Pool
from tarmac.model.errors import Refused
from tarmac.model.resources import CPU_ONLY
from tarmac.model.run import Attempt, Run
from tarmac.server.determined.calls import Call, get, post
from tarmac.server.determined.experiment_records import pool_of
from tarmac.server.determined.gateway import VERSION, Gateway
from tarmac.server.determined.numbering import experiment_number, task_name
from tarmac.server.determined.written import page, time_of

AUX_CONTAINERS = 100
"""How many tasks without slots Determined gives to an agent by itself; here there is no such bound."""

# --- agents and slots


def _agents(call: Call) -> Any:
    reports = call.gateway.service.plane.nodes(call.actor)
    holders = _holders(call.gateway)
    return page(call, "agents", reports, lambda part: [_agent(call, each, holders) for each in part])


def _one_agent(call: Call) -> Any:
    [report] = call.gateway.service.plane.nodes(call.actor, NodeChoice(names=(call.path("agent"),)))
    return {"agent": _agent(call, report, _holders(call.gateway))}


Holders = dict[tuple[str, int], str]
"""The container that holds a slot, by node and number of the slot."""


def _holders(gateway: Gateway) -> Holders:
    return {
        (placement.node, slot): uuid_of("container", attempt.id, placement.node)
        for _, attempt in gateway.service.plane.control.live()
        if attempt is not None
        for placement in attempt.current_allocation.placements
        for slot in placement.slots
    }


def _agent(call: Call, report: NodeReport, holders: Holders) -> dict[str, Any]:
    node = report.node
    drained = node.state is not NodeState.UP
    kind = "TYPE_CPU" if node.capacity.slot_type == CPU_ONLY else "TYPE_CUDA"
    slots = {str(slot): _slot(report, slot, kind, holders) for slot in range(node.capacity.slots)}
    running = sorted({each for (name, _), each in holders.items() if name == node.name})
    stats = {
        "states": {"STATE_RUNNING": report.slots_used},
        "disabled": len(slots) if drained else 0,
        "draining": 0,
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
        "containers": {each: {"id": each, "state": "STATE_RUNNING", "devices": []} for each in running},
        "slotStats": {"typeStats": {kind: stats}, "brandStats": {node.capacity.slot_type or "": stats}},
    }


def _slot(report: NodeReport, slot: int, kind: str, holders: Holders) -> dict[str, Any]:
    node = report.node
    container = holders.get((node.name, slot))
    return {
        "id": str(slot),
        "device": {"id": slot, "brand": node.capacity.slot_type, "uuid": "", "type": kind},
        "enabled": node.state is NodeState.UP,
        "draining": node.state is not NodeState.UP and container is not None,
        "container": {"id": container, "state": "STATE_RUNNING", "devices": []} if container else None,
    }


def _one_slot(call: Call) -> Any:
    [report] = call.gateway.service.plane.nodes(call.actor, NodeChoice(names=(call.path("agent"),)))
    agent = _agent(call, report, _holders(call.gateway))
    return {"slot": agent["slots"].get(str(call.number("slot")))}


def _drained(drained: bool) -> Callable[[Call], Any]:
    """Give an agent no new work, or work again. What runs on a drained one goes on."""

    def change(call: Call) -> Any:
        choice = NodeChoice(names=(call.path("agent"),))
        call.gateway.service.plane.set_drained(call.actor, choice, drained, "det agent disable")
        return {}

    return change


def _slot_drained(_call: Call) -> Any:
    raise Refused("tarmac drains whole nodes, not single slots", hint="det agent disable AGENT")


# --- tasks


def _tasks(call: Call) -> Any:
    """Every attempt that goes on, as the allocation of a task."""
    found = {}
    for run, attempt in call.gateway.service.plane.control.live():
        if attempt is not None:
            record = _task(call.gateway, run, attempt)
            found[record["allocationId"]] = record
    return {"allocationIdToSummary": found}


def _old_tasks(call: Call) -> Any:
    """The same in the form of 0.23 and 0.24."""
    return {
        key: {
            "allocation_id": key,
            "task_id": each["taskId"],
            "name": each["name"],
            "slots_needed": each["slotsNeeded"],
            "registered_time": each["registeredTime"],
            "resource_pool": each["resourcePool"],
            "scheduler_type": each["schedulerType"],
            "priority": each["priority"],
            "resources": [
                {
                    "resources_id": item["resourcesId"],
                    "resources_type": item["resourcesType"],
                    "container_id": item["containerId"],
                    "agent_devices": item["agentDevices"],
                }
                for item in each["resources"]
            ],
            "proxy_ports": [],
        }
        for key, each in _tasks(call)["allocationIdToSummary"].items()
    }


def _task(gateway: Gateway, run: Run, attempt: Attempt) -> dict[str, Any]:
    trial = run.spec.trial
    number = experiment_number(gateway, trial.experiment if trial is not None else run.id)
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


# --- resource pools


def _pools(call: Call) -> Any:
    plane = call.gateway.service.plane
    nodes = plane.nodes(call.actor)
    pools = list(plane.pools(call.actor))
    records = [_pool(pool, nodes, first=at == 0) for at, pool in enumerate(pools)]
    return page(call, "resourcePools", records, list)


def _pool(pool: Pool, nodes: list[NodeReport], *, first: bool) -> dict[str, Any]:
    own = [each for each in nodes if (each.node.cluster, each.node.pool) == pool.key]
    slots = sum(each.node.capacity.slots for each in own)
    accelerated = any(each.node.capacity.slot_type != CPU_ONLY for each in own)
    fair = pool.policy is Policy.FAIR_SHARE
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
        "schedulerFittingPolicy": "FITTING_POLICY_BEST"
        if pool.packing is Packing.PACK
        else "FITTING_POLICY_WORST",
        "details": {
            "priorityScheduler": None
            if fair
            else {"preemption": pool.preemption, "defaultPriority": USUAL, "k8Priorities": []}
        },
        "stats": {"queuedCount": 0, "scheduledCount": 0},
    }


_AGENT = "/api/v1/agents/{agent}"

ROUTES = (
    get("/api/v1/agents", _agents),
    get(_AGENT, _one_agent),
    get(f"{_AGENT}/slots/{{slot}}", _one_slot),
    post(f"{_AGENT}/enable", _drained(False)),
    post(f"{_AGENT}/disable", _drained(True)),
    post(f"{_AGENT}/slots/{{slot}}/enable", _slot_drained),
    post(f"{_AGENT}/slots/{{slot}}/disable", _slot_drained),
    get("/api/v1/tasks", _tasks),
    get("/tasks", _old_tasks),
    get("/api/v1/resource-pools", _pools),
)
