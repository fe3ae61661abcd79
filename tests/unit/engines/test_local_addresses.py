"""The loopback addresses that the local engine gives to the clusters it stands for."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest

from tarmac.engines.local.nodes import Machine, addressed, cluster_nodes
from tarmac.model.cluster import Cluster, NodeGroup
from tarmac.model.codec import replace
from tarmac.model.errors import Refused

MACHINE = Machine(hostname="here", slots=8, slot_type="cpu", cpus=2.0, memory_bytes=2**33)
SITE = Cluster(
    name="site",
    groups=(NodeGroup(nodes=2, slots=8, prefix="a"), NodeGroup(nodes=2, slots=4, hostnames=("b1", "b2"))),
)


def addresses(cluster: Cluster) -> dict[str, str]:
    return {node.hostname: node.address for node in cluster_nodes(MACHINE, cluster)}


def test_a_node_that_stays_keeps_its_address() -> None:
    first = addressed(SITE, None, ())
    grown = addressed(replace(SITE, groups=(NodeGroup(nodes=3, slots=8, prefix="a"),)), first, ())
    assert grown.assigned == first.assigned
    assert addresses(grown)["a2"] == addresses(first)["a2"]


def test_where_nodes_change_their_order_no_new_one_gets_an_address_that_is_in_use() -> None:
    first = addressed(SITE, None, ())
    groups = (NodeGroup(nodes=1, slots=1, prefix="z"), SITE.groups[0])
    moved = addressed(replace(SITE, groups=groups), first, ())
    assert not set(addresses(moved).values()) & set(addresses(first).values())


def test_clusters_share_no_address() -> None:
    """Clusters are added, removed and grown; at every moment each node has its own address."""
    known: dict[str, Cluster] = {}

    def add(name: str, count: int) -> None:
        described = Cluster(name=name, groups=(NodeGroup(nodes=count, slots=1),))
        others = [each for each in known.values() if each.name != name]
        known[name] = addressed(described, known.get(name), others)
        every = [IPv4Address(each) for one in known.values() for each in addresses(one).values()]
        assert len(set(every)) == len(every)
        assert min(every) >= IPv4Address("127.128.0.0")

    for name, count in {"a": 300, "b": 1, "c": 2000}.items():
        add(name, count)
    del known["b"]
    for name, count in {"d": 2, "a": 301, "c": 1, "b": 5000}.items():
        add(name, count)


def test_where_no_stretch_is_long_enough_the_cluster_is_refused() -> None:
    many = NodeGroup(nodes=1 << 16, slots=1)
    known: list[Cluster] = []
    for number in range(127):
        known.append(addressed(Cluster(name=f"c{number}", groups=(many,)), None, known))
    with pytest.raises(Refused, match="no 65536 addresses left"):
        addressed(Cluster(name="one more", groups=(many,)), None, known)
