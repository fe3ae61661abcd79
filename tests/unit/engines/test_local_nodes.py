"""What the local engine offers: this machine, clusters from settings, rehearsals, ports."""

from __future__ import annotations

import socket
from ipaddress import ip_address, ip_network

import pytest

from tarmac.engines.local.nodes import Machine, cluster_nodes, local_nodes, slot_type, survey
from tarmac.model.cluster import NodeGroup
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import Rehearsal
from tarmac.node.kernel.sockets import find_free_port

MACHINE = Machine(hostname="here", slots=2, slot_type="h100", cpus=16.0, memory_bytes=2**36)
LOOPBACK = ip_network("127.0.0.0/8")


@pytest.mark.parametrize(
    ("product", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA H200", "h200"),
        ("NVIDIA A100-SXM4-80GB", "a100_80gb"),
        ("NVIDIA A100 80GB PCIe", "a100_80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100_40gb"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA GeForce RTX 3080 Ti", "rtx3080ti"),
        ("NVIDIA RTX A6000", "a6000"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla V100-SXM2-16GB", "v100"),
        ("Tesla T4", "t4"),
        ("Quadro RTX 8000", "rtx8000"),
        ("  ", "gpu"),
    ],
)
def test_a_product_becomes_the_name_people_write(product: str, expected: str) -> None:
    assert slot_type(product) == expected


def test_this_machine_offers_something_and_says_when_it_is_virtual() -> None:
    machine = survey()
    assert machine.slots >= 1
    assert machine.cpus >= 1
    assert machine.memory_bytes > 2**20
    assert (machine.note is not None) == (machine.slot_type == "cpu")


def test_without_settings_there_is_one_node_with_all_of_the_machine() -> None:
    (node,) = local_nodes(MACHINE)
    assert (node.name, node.address, node.cluster) == ("here", "127.0.0.1", "local")
    assert (node.capacity.slots, node.capacity.slot_type) == (2, "h100")


def test_a_cluster_from_settings_has_its_shape() -> None:
    groups = [
        NodeGroup(nodes=300, slots=6, shard="a"),
        NodeGroup(nodes=2, slots=1, pool="small", hostnames=("left", "right")),
    ]
    nodes = local_nodes(MACHINE, groups)
    assert len({node.name for node in nodes}) == 302
    assert len({node.address for node in nodes}) == 302
    assert all(ip_address(node.address) in LOOPBACK for node in nodes)
    assert [(node.name, node.pool, node.shard) for node in nodes[-2:]] == [
        ("left", "small", None),
        ("right", "small", None),
    ]
    assert (nodes[0].shard, nodes[0].capacity.slots, nodes[0].capacity.slot_type) == ("a", 6, "cpu")


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([NodeGroup(nodes=2, slots=1, hostnames=("a",))], "2 nodes .* 1 hostnames"),
        ([NodeGroup(nodes=2, slots=1, hostnames=("a", "a"))], "called 'a'"),
        ([NodeGroup(nodes=1, slots=0)], "at least one"),
        ([NodeGroup(nodes=0, slots=1)], "at least one"),
        ([NodeGroup(nodes=1, slots=1, hostnames=("../x",))], "cannot be the name"),
    ],
)
def test_settings_that_make_no_cluster_are_refused(groups: list[NodeGroup], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        local_nodes(MACHINE, groups)


@pytest.mark.parametrize("run_id", ["a", "b", "0123", "zz" * 20])
def test_rehearsal_addresses_are_loopback_and_apart_from_the_lasting_cluster(run_id: str) -> None:
    nodes = cluster_nodes(MACHINE, Rehearsal(nodes=5000, slots_per_node=1).cluster(run_id))
    addresses = {ip_address(node.address) for node in nodes}
    assert len(addresses) == 5000
    assert all(address in LOOPBACK and address not in ip_network("127.0.0.0/16") for address in addresses)


@pytest.mark.parametrize("listens_at", ["127.0.0.1", "0.0.0.0", "::"])
def test_a_port_somebody_listens_on_is_not_free(listens_at: str) -> None:
    family = socket.AF_INET6 if ":" in listens_at else socket.AF_INET
    if family is socket.AF_INET6 and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    port = find_free_port("127.0.0.1", frozenset())
    with socket.socket(family) as listener:
        listener.bind((listens_at, port))
        listener.listen()
        others = frozenset(range(10_000, 65_536)) - {port}
        with pytest.raises(Exception, match="no port is free"):
            find_free_port("127.0.0.1", others)
    assert find_free_port("127.0.0.1", frozenset(range(10_000, 65_536)) - {port}) == port
