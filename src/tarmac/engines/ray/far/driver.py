"""A driver of the Ray: its nodes, an actor on each, placement groups over nodes. Called by `program`."""

from __future__ import annotations

import sys
import time
from threading import Lock
from typing import Any

import ray
import ray._private.state as ray_state
from ray import cloudpickle
from ray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from tarmac.engines.ray.far import actor

NAMESPACE = "tarmac"
ACTOR_S = 55.0
RESERVE_S = 4.0
RESERVE_LOOK_S = 0.003
TINY = 0.001
"""Part of the resource that every node has under its own address: enough to select the node."""


class Driver:
    """A connection to a Ray. `key` distinguishes our actors and groups from those of other servers."""

    def __init__(self, address: str, key: str) -> None:
        self._key = key
        self._lock = Lock()
        self._actors: dict[str, Any] = {}
        ray.init(address=address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False)
        cloudpickle.register_pickle_by_value(actor)

    def about(self) -> dict[str, Any]:
        """Our versions of Ray and Python, which the Ray has as well: otherwise it would have refused us."""
        return {"ray": ray.__version__, "python": sys.version.split()[0]}

    def members(self) -> list[dict[str, Any]]:
        """The nodes: {"id", "address", "hostname", "alive", "cpus", "accelerators", "shared", "reserved"}."""
        reserved, available = self._reserved(), ray_state.available_resources_per_node()
        return [_member(node, reserved, available.get(node["NodeID"])) for node in ray.nodes()]

    def endpoint(
        self, member_id: str, program: bytes, code: str, order: dict[str, str], instead_of: int | None
    ) -> dict[str, Any]:
        """The address of a node's agent; see `AgentStarter`. Raises errors of Ray."""
        for last in (False, True):
            starter = self._actor(member_id, version=order["version"])
            try:
                answer = starter.endpoint.remote(program, code, order, instead_of)
                return dict(ray.get(answer, timeout=ACTOR_S))
            except ray.exceptions.RayActorError:
                self._actors.pop(member_id, None)
                if last:
                    raise
            except ray.exceptions.GetTimeoutError:  # whatever blocks it: the next call uses another actor
                self._actors.pop(member_id, None)
                ray.kill(starter)
                raise
        raise AssertionError("returned or raised above")

    def reserve(self, member_ids: list[str]) -> list[str]:
        """Reserve whole nodes, all or none; return the addresses of those that others use."""
        nodes = {node["NodeID"]: node for node in ray.nodes() if node["Alive"]}
        groups = {}
        for member_id in member_ids:
            address, total = nodes[member_id]["NodeManagerAddress"], nodes[member_id]["Resources"]
            bundle = {kind: total[kind] for kind in ("CPU", "GPU") if total.get(kind)}
            bundle["node:" + address] = TINY
            groups[address] = placement_group([bundle], name=self._name(address), lifetime="detached")
        deadline = time.monotonic() + RESERVE_S
        missing = list(groups)
        while missing and time.monotonic() < deadline:
            tables = {place: placement_group_table(groups[place]) for place in missing}
            missing = [place for place, table in tables.items() if table["state"] != "CREATED"]
            if missing:
                time.sleep(RESERVE_LOOK_S)
        if missing:
            for group in groups.values():
                remove_placement_group(group)
        return missing

    def release(self, member_ids: list[str]) -> None:
        """Release the nodes."""
        for node in ray.nodes():
            if node["NodeID"] in member_ids:
                try:
                    remove_placement_group(get_placement_group(self._name(node["NodeManagerAddress"])))
                except ValueError:
                    continue  # not reserved

    def _actor(self, member_id: str, *, version: str) -> Any:
        with self._lock:
            if member_id not in self._actors:
                self._actors[member_id] = self._find_actor(member_id, version)
            return self._actors[member_id]

    def _find_actor(self, member_id: str, version: str) -> Any:
        name = f"agent-{self._key}-{version}-{member_id}"
        try:
            return ray.get_actor(name, namespace=NAMESPACE)
        except ValueError:
            options = {
                "name": name,
                "namespace": NAMESPACE,
                "lifetime": "detached",
                "num_cpus": 0,
                "num_gpus": 0,
                "scheduling_strategy": NodeAffinitySchedulingStrategy(member_id, soft=False),
            }
            return ray.remote(actor.AgentStarter).options(**options).remote()

    def _reserved(self) -> set[str]:
        """The addresses of the nodes reserved for us."""
        prefix = self._name("")
        groups = placement_group_table().values()
        return {
            group["name"][len(prefix) :]
            for group in groups
            if group["name"].startswith(prefix) and group["state"] == "CREATED"
        }

    def _name(self, address: str) -> str:
        return f"tarmac-{self._key}-{address}"


def _member(node: dict[str, Any], reserved: set[str], available: dict[str, float] | None) -> dict[str, Any]:
    total, address = node["Resources"], node["NodeManagerAddress"]
    free = available or {}
    used = [kind for kind in ("CPU", "GPU") if total.get(kind, 0.0) - free.get(kind, 0.0) > TINY]
    return {
        "id": node["NodeID"],
        "address": address,
        "hostname": node["NodeManagerHostname"],
        "alive": bool(node["Alive"]),
        "cpus": total.get("CPU", 0.0),
        "accelerators": total.get("GPU", 0.0),
        "reserved": address in reserved,
        "shared": available is not None and bool(used) and address not in reserved,
    }
