"""From the description of a cluster to its nodes. Pure; used by engines that simulate clusters, and offline.

A node's name is unique among all clusters: its host name, and after it the cluster's name, which has no dot.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from ipaddress import IPv4Address

from tarmac.model.cluster import LOCAL_CLUSTER, REHEARSAL_PREFIX, Cluster, Node, NodeGroup
from tarmac.model.record import replace
from tarmac.model.resources import Resources

MOST_NODES = 1 << 16
"""The most nodes of one described cluster."""


FIRST_ADDRESS = "first_address"
"""The assigned key that has the address of a cluster's first node; the others follow."""

MOST_CLUSTERS = 4096
"""The number of clusters whose nodes an engine remembers."""


def node_name(cluster: str, hostname: str) -> str:
    """The name of a node: in the local cluster its host name alone."""
    if cluster == LOCAL_CLUSTER:
        return hostname
    return f"{hostname}.{cluster.removeprefix(REHEARSAL_PREFIX)}"


def renamed(cluster: Cluster, name: str) -> Cluster:
    """The same cluster by another name."""
    return replace(cluster, name=name, pools=tuple(replace(pool, cluster=name) for pool in cluster.pools))


def hostnames_of(groups: tuple[NodeGroup, ...]) -> Iterator[tuple[NodeGroup, str]]:
    """Every node's group and host name, in order. Nodes without a name of their own are counted by prefix."""
    counted: Counter[str] = Counter()
    for group in groups:
        if group.hostnames:
            yield from ((group, hostname) for hostname in group.hostnames)
            continue
        for _ in range(group.nodes):
            counted[group.prefix] += 1
            yield group, f"{group.prefix}{counted[group.prefix]}"


class NodeCache:
    """Nodes by cluster, made again only after a description changed."""

    def __init__(self, make: Callable[[Cluster], tuple[Node, ...]]) -> None:
        self._make = make
        self._cache: dict[str, tuple[Cluster, tuple[Node, ...]]] = {}

    def nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        """The nodes of a cluster: the same object as before if its description is unchanged."""
        known = self._cache.get(cluster.name)
        if known is not None and (known[0] is cluster or known[0] == cluster):
            return known[1]
        nodes = self._make(cluster)
        if len(self._cache) >= MOST_CLUSTERS:
            self._cache.clear()  # rehearsals come and go; nodes of those that remain are made again
        self._cache[cluster.name] = cluster, nodes
        return nodes

    def forget(self) -> None:
        """Make everything again, because of a change of the nodes that is in no description."""
        self._cache.clear()


def described_nodes(
    cluster: Cluster, *, first_address: str, cpus: float, memory_bytes: int
) -> tuple[Node, ...]:
    """The nodes of a described cluster, on consecutive addresses.

    `cpus` and `memory_bytes` apply to nodes whose group has none.
    """
    first = int(IPv4Address(first_address))
    return tuple(
        Node(
            name=node_name(cluster.name, hostname),
            cluster=cluster.name,
            address=str(IPv4Address(first + number)),
            hostname=hostname,
            capacity=Resources(
                slots=group.slots,
                slot_type=group.slot_type,
                cpus=cpus if group.cpus is None else group.cpus,
                memory_bytes=memory_bytes if group.memory_bytes is None else group.memory_bytes,
            ),
            pool=group.pool,
            shard=group.shard,
            disks=group.disks,
        )
        for number, (group, hostname) in enumerate(hostnames_of(cluster.groups))
    )
