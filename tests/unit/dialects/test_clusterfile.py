"""Cluster descriptions: what a file becomes, and what is wrong with it, all at once and located."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tarmac.dialects.clusterfile import read_cluster
from tarmac.dialects.slot_types import KNOWN, doubt
from tarmac.model.cluster import (
    MOST_NODES,
    Cluster,
    Disks,
    NodeGroup,
    Packing,
    Policy,
    Pool,
    ShareBy,
    described_nodes,
    renamed,
)
from tarmac.model.codec import decode, encode
from tarmac.model.errors import InvalidInput

WHOLE = """\
name: site-a
nodes:
  - {count: 2, slots: 8, slot_type: H100, cpus: 64, memory: 512GiB, pool: big, shard: left, prefix: a}
  - hostnames: [b1, b2]
    slots: rtx3090:4
    shard: right
  - {slots: 1}
pools:
  big:
    policy: fair_share
    preemption: true
    packing: spread
    guaranteed: 0s
    backfill_window: 5m
    share_by: project
    shares: {vision: 2, text: 0.5}
    half_life: 1d
    turn: 10s
    period: 2m
    floor: 20s
"""


def cluster(text: str, filename: str = "cluster.yaml") -> Cluster:
    return read_cluster(text, filename=filename).cluster


def problems(text: str, filename: str = "c.yaml") -> list[str]:
    with pytest.raises(InvalidInput) as refused:
        read_cluster(text, filename=filename)
    return [str(problem) for problem in refused.value.problems]


def test_a_whole_file() -> None:
    reading = read_cluster(WHOLE, filename="anything.yaml")
    assert reading.warnings == ()
    assert reading.cluster == Cluster(
        name="site-a",
        groups=(
            NodeGroup(
                nodes=2,
                slots=8,
                slot_type="h100",
                cpus=64.0,
                memory_bytes=512 * 2**30,
                pool="big",
                shard="left",
                prefix="a",
            ),
            NodeGroup(nodes=2, slots=4, slot_type="rtx3090", shard="right", hostnames=("b1", "b2")),
            NodeGroup(nodes=1, slots=1),
        ),
        pools=(
            Pool(
                name="big",
                cluster="site-a",
                policy=Policy.FAIR_SHARE,
                preemption=True,
                packing=Packing.SPREAD,
                guaranteed_s=0.0,
                backfill_window_s=300.0,
                share_by=ShareBy.PROJECT,
                shares={"vision": 2.0, "text": 0.5},
                half_life_s=86_400.0,
                turn_s=10.0,
                period_s=120.0,
                floor_s=20.0,
            ),
        ),
    )
    assert decode(Cluster, encode(reading.cluster)) == reading.cluster


def test_a_file_without_a_name_is_called_like_the_file() -> None:
    assert cluster("nodes: [{slots: 1}]", "/etc/site b.2.yaml").name == "site-b-2"
    (problem,) = problems("nodes: [{slots: 1}]", "local.yaml")
    assert "the file's own, 'local', is not allowed" in problem


def test_nodes_are_counted_by_prefix_and_what_is_not_said_is_given() -> None:
    """The names, addresses and capacities that engines and simulations give to a description."""
    nodes = described_nodes(cluster(WHOLE), first_address="127.128.0.255", cpus=2.0, memory_bytes=7)
    assert [node.name for node in nodes] == [
        "a1.site-a",
        "a2.site-a",
        "b1.site-a",
        "b2.site-a",
        "node1.site-a",
    ]
    assert [node.hostname for node in nodes] == ["a1", "a2", "b1", "b2", "node1"]
    assert [node.address for node in nodes][:2] == ["127.128.0.255", "127.128.1.0"]
    assert [(node.capacity.cpus, node.capacity.memory_bytes) for node in nodes] == [
        *[(64.0, 512 * 2**30)] * 2,
        *[(2.0, 7)] * 3,
    ]
    assert [node.pool for node in nodes] == ["big", "big", "default", "default", "default"]
    assert [node.shard for node in nodes] == ["left", "left", "right", "right", None]


def test_a_prefix_that_stands_twice_is_counted_on() -> None:
    nodes = described_nodes(
        cluster("nodes: [{count: 2, slots: 1}, {slots: 1, hostnames: [x]}, {count: 2, slots: 2}]"),
        first_address="127.128.0.1",
        cpus=1.0,
        memory_bytes=1,
    )
    assert [node.hostname for node in nodes] == ["node1", "node2", "x", "node3", "node4"]


def test_a_cluster_by_another_name_takes_its_pools_along() -> None:
    other = renamed(cluster(WHOLE), "b")
    assert (other.name, [pool.key for pool in other.pools]) == ("b", [("b", "big")])


def test_all_that_is_wrong_is_said_at_once_with_its_place() -> None:
    found = problems(
        """\
name: site.a
node: 3
nodes:
  - {count: 3, slot: 8, hostnames: [b1, b2]}
  - {slots: 0, memory: 3, prefix: a, hostnames: [x]}
pools:
  big: {polcy: x}
  default: {floor: 3h, shares: {a: 0}}
"""
    )
    places = [re.match(r"c\.yaml:(\d+):(\d+): (.*)", problem) for problem in found]
    assert [(place[1], place[3].split(":")[0]) for place in places if place] == [
        ("1", "name"),
        ("2", "unknown field 'node' (did you mean 'nodes'?)"),
        ("4", "nodes[0].count"),
        ("4", "nodes[0]"),
        ("5", "nodes[1].slots"),
        ("5", "nodes[1].memory"),
        ("5", "nodes[1].prefix"),
        ("7", "pools.big"),
        ("7", "pools.big"),
        ("8", "pools.default.floor"),
        ("8", "pools.default.shares"),
        ("8", "pools.default.shares.a"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("[1]", "fields such as 'nodes: [...]' are expected, not a list"),
        ("name: a", "'nodes' is missing"),
        ("nodes: []", "a cluster has at least one node"),
        ("nodes: {slots: 1}", "a list of groups of nodes, such as [{count: 4, slots: 8}], is expected"),
        ("nodes: [{count: 1}]", "nodes[0]: 'slots' is missing"),
        ("nodes: [{slots: 1025}]", "1025 slots are more than the 1024 that a node may have"),
        (f"nodes: [{{slots: 1, count: {MOST_NODES}}}, {{slots: 1}}]", "65537 nodes are more than the 65536"),
        ("nodes: [{slots: 1, hostnames: [a, a]}]", "a second node is called 'a'"),
        ("nodes: [{slots: 1, hostnames: [node2]}, {slots: 1, count: 2}]", "a second node is called 'node2'"),
        ("nodes: [{slots: 1, hostnames: ['../x']}]", "a host name of letters, digits"),
        ("nodes: [{slots: 't4:1', slot_type: l4}]", "its type is t4 here and l4 in 'slot_type'"),
        ("nodes: [{slots: 1}]\npools: {big: {}}", "pools.big: no node is in this pool"),
        ("nodes: [{slots: 1}]\npools: {default: {half_life: 1d}}", "nothing is shared under policy priority"),
        ("nodes: [{slots: 1}]\npools: {default: {period: 4m}}", "a block of at least 300s does not fit"),
        ("name: local\nnodes: [{slots: 1}]", "settings.toml describes it"),
        ("name: rehearsal-1\nnodes: [{slots: 1}]", "are those of rehearsals"),
    ],
)
def test_what_makes_no_cluster_is_refused(text: str, message: str) -> None:
    assert any(message in problem for problem in problems(text)), problems(text)


def test_the_slot_types_of_the_source_document_are_known() -> None:
    """C4: every type of slot that the source document names."""
    named = "a100_40gb a100_80gb h100 rtx3080 rtx3090 rtx6000 t4 l4 v100 p100 p4 rtx4090 rtx4080 rtx3070"
    named += " rtx3060 rtx4070 rtx4060 rtx3050 gtx1050 h200 cpu"
    assert set(named.split()) <= KNOWN


@pytest.mark.parametrize("name", ["h10o", "a100-80gb", "rtx3091", "v1000"])
def test_a_slot_type_that_looks_like_a_typing_error_is_warned_of_and_taken(name: str) -> None:
    reading = read_cluster(f"nodes: [{{slots: 1, slot_type: {name}}}]", filename="c.yaml")
    assert reading.cluster.groups[0].slot_type == name
    assert [warning.split(":")[0] for warning in reading.warnings] == ["nodes[0].slot_type"]


@pytest.mark.parametrize("name", ["tpu-v5e", "gaudi3", "fast", *sorted(KNOWN)])
def test_any_other_slot_type_is_taken_without_a_word(name: str) -> None:
    assert doubt(name) is None


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[3] / "examples" / "clusters").glob("*.yaml")))
def test_the_examples_are_clusters(path: Path) -> None:
    assert read_cluster(path.read_text(), filename=path.name).warnings == ()


def test_nodes_may_have_disks_of_their_own() -> None:
    """Said for the whole cluster, or for a kind of nodes."""
    made = cluster("disks: own\nnodes: [{count: 1, slots: 1}, {hostnames: [s], slots: 1, disks: shared}]\n")
    assert [group.disks for group in made.groups] == [Disks.OWN, Disks.SHARED]
    nodes = described_nodes(made, first_address="127.0.0.1", cpus=1.0, memory_bytes=1)
    assert [node.disks for node in nodes] == [Disks.OWN, Disks.SHARED]
    assert cluster("nodes: [{slots: 1}]\n").groups[0].disks is Disks.SHARED
    assert decode(Cluster, encode(made)) == made
    assert "shared" in problems("disks: mine\nnodes: [{slots: 1}]\n")[0]
