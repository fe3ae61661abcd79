"""The nodes that the local engine represents: this machine, a cluster from settings, described ones.

Called by `LocalEngine` and the server's wiring. Every node has a loopback address of its own, so that the
parts of a multi-node launch connect as on a real cluster. Slots, cpus and memory beyond this machine's are
virtual. Each added cluster gets a permanent range of addresses in the upper half of the loopback network; the
permanent cluster and rehearsals are below.
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address
from pathlib import Path

from tarmac.engines.hosts.slot_types import slot_type
from tarmac.model.cluster import (
    FIRST_ADDRESS,
    LOCAL_CLUSTER,
    MOST_NODES,
    REHEARSAL_PREFIX,
    Cluster,
    Node,
    NodeGroup,
    described_nodes,
    hostnames_of,
)
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, Refused
from tarmac.model.resources import CPU_ONLY, Resources
from tarmac.node.attempt.document import NODE_NAME
from tarmac.node.kernel.nvml import Nvml, NvmlError

LASTING_FIRST = "127.0.0.1"
REHEARSAL_FIRST = int(IPv4Address("127.1.0.1"))
REHEARSAL_LAST = int(IPv4Address("127.127.255.254"))
"""Addresses above, up to the end of the loopback network, are for added clusters: see `addressed`."""

ADDED_FIRST = int(IPv4Address("127.128.0.1"))
ADDED_LAST = int(IPv4Address("127.255.255.254"))

Span = tuple[int, int]

VIRTUAL_SLOTS = 8

DRIVER_SIGNS = (Path("/proc/driver/nvidia"), Path("/dev/nvidiactl"), Path("/dev/dxg"))
"""Without any of these there is no GPU, and no need to load the library."""


def local_nodes(
    machine: Machine, groups: Sequence[NodeGroup] = (), *, name: str = LOCAL_CLUSTER
) -> tuple[Node, ...]:
    """The nodes of the permanent cluster `name`: those of the groups, or this machine with all its resources.

    Raises InvalidInput for invalid groups.
    """
    if groups:
        _check(groups)
    else:
        whole = NodeGroup(
            nodes=1, slots=machine.slots, slot_type=machine.slot_type, hostnames=(machine.hostname,)
        )
        groups = (whole,)
    cluster = Cluster(name=name, groups=tuple(groups), assigned={FIRST_ADDRESS: LASTING_FIRST})
    return cluster_nodes(machine, cluster)


def cluster_nodes(machine: Machine, cluster: Cluster) -> tuple[Node, ...]:
    """The nodes of a described cluster; this machine's values replace those that it omits."""
    return described_nodes(
        cluster,
        first_address=cluster.assigned.get(FIRST_ADDRESS) or _place(cluster),
        cpus=machine.cpus,
        memory_bytes=machine.memory_bytes,
    )


def _place(cluster: Cluster) -> str:
    """The first address of a rehearsal's nodes: derived from its name, that is from the run's id."""
    nodes = sum(group.nodes for group in cluster.groups)
    name = cluster.name.removeprefix(REHEARSAL_PREFIX)
    spread = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big")
    return str(IPv4Address(REHEARSAL_FIRST + spread % (REHEARSAL_LAST - REHEARSAL_FIRST - nodes)))


def _check(groups: Sequence[NodeGroup]) -> None:
    for group in groups:
        if group.hostnames and len(group.hostnames) != group.nodes:
            raise InvalidInput(
                f"{group.nodes} nodes of the local cluster have {len(group.hostnames)} hostnames"
            )
    nodes = sum(group.nodes for group in groups)
    if nodes > MOST_NODES:
        raise InvalidInput(f"{nodes} nodes are more than the {MOST_NODES} a local cluster may have")
    if any(group.slots < 1 or group.nodes < 1 for group in groups):
        raise InvalidInput("a local cluster has at least one node, and a node at least one slot")
    names = Counter(hostname for _, hostname in hostnames_of(tuple(groups)))
    if twice := sorted(name for name, times in names.items() if times > 1):
        raise InvalidInput(f"two nodes of the local cluster are called {twice[0]!r}")
    if bad := [name for name in names if not NODE_NAME.fullmatch(name)]:
        raise InvalidInput(
            f"{bad[0]!r} cannot be the name of a node", hint="letters, digits, '.', '_' and '-'"
        )


def addressed(cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:
    """The cluster with its first address; raises Refused if no free range is long enough.

    It keeps its old first address if the remaining nodes keep their addresses with it. Otherwise it gets the
    first gap that is large enough, outside the old range, whose addresses running attempts still use.
    """
    return replace(cluster, assigned={FIRST_ADDRESS: _first_address(cluster, old, others)})


def _first_address(cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> str:
    size = _size(cluster)
    taken = sorted(span for other in others if (span := _span(other)) is not None)
    before = _span(old) if old is not None else None
    if old is not None and before is not None:
        first = before[0]
        is_free = all(start > first + size - 1 or end < first for start, end in taken)
        if is_free and first + size - 1 <= ADDED_LAST and _in_step(old, cluster):
            return old.assigned[FIRST_ADDRESS]
        taken = sorted([*taken, before])
    first = ADDED_FIRST
    for start, end in taken:
        if first + size <= start:
            break
        first = max(first, end + 1)
    if first + size - 1 > ADDED_LAST:
        raise Refused(f"there are no {size} addresses left next to one another for cluster {cluster.name}")
    return str(IPv4Address(first))


def _span(cluster: Cluster) -> Span | None:
    address = cluster.assigned.get(FIRST_ADDRESS)
    if address is None:
        return None
    first = int(IPv4Address(address))
    return first, first + _size(cluster) - 1


def _size(cluster: Cluster) -> int:
    return sum(group.nodes for group in cluster.groups)


def _in_step(old: Cluster, new: Cluster) -> bool:
    """Whether every common node has the same number in both clusters."""
    before = {hostname: number for number, (_, hostname) in enumerate(hostnames_of(old.groups))}
    return all(
        before.get(hostname, number) == number
        for number, (_, hostname) in enumerate(hostnames_of(new.groups))
    )


class Machine(Resources, frozen=True, kw_only=True):
    """One machine's resources. `note` explains to the user slots that are not real."""

    hostname: str
    slot_type: str
    note: str | None = None


def survey() -> Machine:
    """This machine now: its GPUs, else virtual slots."""
    products = gpu_products()
    slot_types = {slot_type(product) for product in products}
    note = None
    if not products:
        note = f"no GPU found: this machine offers {VIRTUAL_SLOTS} virtual slots of type {CPU_ONLY}"
    elif len(slot_types) > 1:
        note = (
            f"GPUs of several types ({', '.join(sorted(slot_types))}): all count as {slot_type(products[0])}"
        )
    return Machine(
        hostname=socket.gethostname(),
        slots=len(products) or VIRTUAL_SLOTS,
        slot_type=slot_type(products[0]) if products else CPU_ONLY,
        cpus=float(len(os.sched_getaffinity(0))),
        memory_bytes=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        note=note,
    )


def gpu_products() -> list[str]:
    """The product name of every GPU, in the order of their numbers; empty without a driver."""
    if not any(sign.exists() for sign in DRIVER_SIGNS):
        return []
    try:
        library = Nvml()
    except (OSError, NvmlError):
        return []
    try:
        return [library.product(gpu) for gpu in range(library.count())]
    except NvmlError:
        return []
    finally:
        library.close()
