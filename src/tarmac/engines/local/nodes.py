"""The nodes that the local engine stands for: this machine, a lasting cluster from settings, rehearsals.

Every node has a loopback address of its own, so that a multi-node launch meets itself the way it would
on a real cluster.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from ipaddress import IPv4Address

from tarmac.engines.local.devices import Machine
from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Node, NodeGroup, rehearsal_cluster
from tarmac.model.errors import InvalidInput
from tarmac.model.resources import CPU_ONLY, Resources

LASTING_FIRST = int(IPv4Address("127.0.0.1"))
REHEARSAL_FIRST = int(IPv4Address("127.1.0.1"))
REHEARSAL_LAST = int(IPv4Address("127.255.255.254"))
MAX_NODES = 1 << 16
NODE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def local_nodes(machine: Machine, groups: Sequence[NodeGroup] = ()) -> tuple[Node, ...]:
    """The nodes of the lasting cluster: those of the groups, or this machine with all it has.

    Raises InvalidInput for groups that make no cluster.
    """
    if not groups:
        return (_node(machine.hostname, LASTING_FIRST, machine, machine.slots, machine.slot_type),)
    nodes: list[Node] = []
    for group in groups:
        for hostname in _hostnames(group, len(nodes)):
            address = LASTING_FIRST + len(nodes)
            nodes.append(
                _node(
                    hostname,
                    address,
                    machine,
                    group.slots,
                    group.slot_type,
                    pool=group.pool,
                    shard=group.shard,
                )
            )
    _check(nodes)
    return tuple(nodes)


def rehearsal_nodes(machine: Machine, run_id: str, nodes: int, slots_per_node: int) -> tuple[Node, ...]:
    """The nodes of one run's own cluster; their place on the loopback network follows from the run's id."""
    spread = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:4], "big")
    first = REHEARSAL_FIRST + spread % (REHEARSAL_LAST - REHEARSAL_FIRST - nodes)
    return tuple(
        _node(
            f"node{number + 1}.{run_id}",
            first + number,
            machine,
            slots_per_node,
            CPU_ONLY,
            cluster=rehearsal_cluster(run_id),
            hostname=f"node{number + 1}",
        )
        for number in range(nodes)
    )


def _node(
    name: str,
    address: int,
    machine: Machine,
    slots: int,
    slot_type: str,
    *,
    cluster: str = LOCAL_CLUSTER,
    hostname: str | None = None,
    pool: str = DEFAULT_POOL,
    shard: str | None = None,
) -> Node:
    return Node(
        name=name,
        cluster=cluster,
        address=str(IPv4Address(address)),
        hostname=hostname or name,
        capacity=Resources(
            slots=slots, slot_type=slot_type, cpus=machine.cpus, memory_bytes=machine.memory_bytes
        ),
        pool=pool,
        shard=shard,
    )


def _hostnames(group: NodeGroup, before: int) -> Sequence[str]:
    if group.hostnames and len(group.hostnames) != group.nodes:
        raise InvalidInput(f"{group.nodes} nodes of the local cluster have {len(group.hostnames)} hostnames")
    return group.hostnames or [f"{group.prefix}{before + number + 1}" for number in range(group.nodes)]


def _check(nodes: Sequence[Node]) -> None:
    names = [node.name for node in nodes]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InvalidInput(f"two nodes of the local cluster are called {twice[0]!r}")
    if bad := [name for name in names if not NODE_NAME.fullmatch(name)]:
        raise InvalidInput(
            f"{bad[0]!r} cannot be the name of a node", hint="letters, digits, '.', '_' and '-'"
        )
    if any(node.capacity.slots < 1 for node in nodes) or not nodes:
        raise InvalidInput("a local cluster has at least one node, and a node at least one slot")
    if len(nodes) > MAX_NODES:
        raise InvalidInput(f"{len(nodes)} nodes are more than the {MAX_NODES} a local cluster may have")
