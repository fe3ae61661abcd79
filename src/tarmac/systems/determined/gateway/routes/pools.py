"""Resource pools, with the fields that every release of `det` requires. Listed in `application`."""

from __future__ import annotations

from typing import Any

from tarmac.control.reports import NodeReport
from tarmac.model.cluster import Packing, Policy, Pool
from tarmac.model.resources import CPU_ONLY
from tarmac.systems.determined.gateway.calls import Call, get
from tarmac.systems.determined.gateway.records.written import page
from tarmac.systems.determined.statuses import USUAL

AUX_CONTAINERS = 100
"""Determined's default limit of tasks without slots for each agent; tarmac has no such limit."""


def default_pool(call: Call) -> str | None:
    """The pool of requests without one: the first of the server's own cluster."""
    return next((pool.name for pool in call.gateway.service.plane.pools(call.actor)), None)


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


ROUTES = (get("/api/v1/resource-pools", _pools),)
