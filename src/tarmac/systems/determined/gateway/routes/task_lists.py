"""`det task list`: active runs as tasks and their allocations. Listed in `application`."""

from __future__ import annotations

from typing import Any

from tarmac.model.run import Attempt, Run
from tarmac.systems.determined.gateway.calls import Call, get
from tarmac.systems.determined.gateway.gateway import Gateway
from tarmac.systems.determined.gateway.numbering import experiment_number, task_name
from tarmac.systems.determined.gateway.records.experiments import pool_of
from tarmac.systems.determined.gateway.records.written import time_of
from tarmac.systems.determined.identity import uuid_of
from tarmac.systems.determined.statuses import of_tarmac


def _tasks(call: Call) -> Any:
    """Every active attempt as the allocation of a task."""
    found = {}
    for run, attempt in call.gateway.service.plane.control.live():
        if attempt is not None:
            record = _task(call.gateway, run, attempt)
            found[record["allocationId"]] = record
    return {"allocationIdToSummary": found}


def _old_tasks(call: Call) -> Any:
    """The list in the form of 0.23 and 0.24."""
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


ROUTES = (
    get("/api/v1/tasks", _tasks),
    get("/tasks", _old_tasks),
)
