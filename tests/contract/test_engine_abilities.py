"""What engines may be able to do beside (model/ports.py), held against the simulated and the local one."""

from __future__ import annotations

import pytest

from engine_harness import LOG, Harness, Work, ended, started, submit
from tarmac.model.abilities import Attachable, DescribesClusters, OffersNodes, ReadsReports
from tarmac.model.cluster import Cluster, NodeGroup
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound
from tarmac.model.progress import Outcome
from tarmac.model.spec import Rehearsal

PLACED = pytest.mark.parametrize("harness", ["sim", "local"], indirect=True)
"""The engines that offer nodes, for tarmac to place on."""


def test_news_of_an_attempt_comes_by_itself(harness: Harness) -> None:
    engine = harness.engine
    assert isinstance(engine, Attachable)
    told: list[str] = []
    engine.subscribe(told.append)
    attempt = submit(harness, Work())
    harness.settle(attempt, lambda seen: ended(seen) and attempt in told)
    assert set(told) == {attempt}


def test_what_workers_report_comes_with_what_is_observed(harness: Harness) -> None:
    """Whole lines, from where the last ones ended, and all of them once the attempt has ended."""
    engine = harness.engine
    assert isinstance(engine, ReadsReports)
    lines = "".join(f'{{"at": {number}, "metrics": {{"loss": 0.5}}}}\n' for number in range(40))
    attempt = submit(harness, Work(reports=lines + "torn"))
    harness.settle(attempt, ended)
    positions: dict[str, int] = {}
    content = b""
    while pieces := engine.reports({attempt: positions, "gone.1": {}}, limit_bytes=200):
        [piece] = pieces.pop(attempt)
        assert not pieces
        assert len(piece.content) == piece.end - piece.begin <= 200
        assert piece.begin == positions.get(piece.node, 0)
        assert piece.content.endswith(b"\n")
        positions[piece.node] = piece.end
        content += piece.content
    assert content.decode() == lines


def test_reaping_ends_what_is_left_of_an_attempt(harness: Harness) -> None:
    engine = harness.engine
    assert isinstance(engine, Attachable)
    attempt = started(harness, Work(lasts=True, ignores_requests=True), nodes=2)
    engine.reap(attempt)
    engine.reap(attempt)
    assert harness.settle(attempt, ended).outcome is Outcome.LOST


def test_reaping_one_that_was_never_submitted_fences_it(harness: Harness) -> None:
    launch = harness.launch(Work())
    harness.engine.reap(launch.attempt_id)
    harness.engine.submit(harness.engine.render(launch))
    assert harness.settle(launch.attempt_id, ended).outcome is Outcome.LOST
    with pytest.raises(NotFound):
        harness.engine.read(launch.attempt_id, LOG)


@PLACED
def test_free_ports_are_none_of_those_taken(harness: Harness) -> None:
    engine = harness.engine
    assert isinstance(engine, OffersNodes)
    taken: set[int] = set()
    for _ in range(5):
        port = engine.free_port("127.0.0.1", frozenset(taken))
        assert 1024 < port < 32_768
        assert port not in taken
        taken.add(port)


@PLACED
def test_a_rehearsal_has_nodes_of_its_own_the_same_every_time(harness: Harness) -> None:
    engine = harness.engine
    assert isinstance(engine, OffersNodes)
    assert isinstance(engine, DescribesClusters)
    rehearsal = Rehearsal(nodes=12, slots_per_node=6)
    nodes = engine.cluster_nodes(rehearsal.cluster("run1"))
    assert engine.cluster_nodes(rehearsal.cluster("run1")) is nodes
    assert {node.cluster for node in nodes} == {"rehearsal-run1"}
    assert [node.capacity.slots for node in nodes] == [6] * 12
    others = [*engine.nodes(), *engine.cluster_nodes(rehearsal.cluster("run2"))]
    assert len({node.name for node in [*nodes, *others]}) == 12 + len(others)
    assert len({node.address for node in nodes}) == 12


@PLACED
def test_an_engine_stands_for_a_described_cluster(harness: Harness) -> None:
    """C4: several pools, shards and slot types at once, each node with an address of its own."""
    engine = harness.engine
    assert isinstance(engine, DescribesClusters)
    cluster = Cluster(
        name="site",
        groups=(
            NodeGroup(nodes=2, slots=8, slot_type="h100", cpus=96.0, pool="big", shard="left", prefix="a"),
            NodeGroup(nodes=2, slots=4, memory_bytes=2**40, shard="right", hostnames=("b", "c")),
        ),
        assigned={"first_address": "127.200.0.254"},
    )
    nodes = engine.cluster_nodes(cluster)
    assert engine.cluster_nodes(replace(cluster)) is nodes
    assert [node.name for node in nodes] == ["a1.site", "a2.site", "b.site", "c.site"]
    assert {node.cluster for node in nodes} == {"site"}
    shapes = [(node.pool, node.shard, node.capacity.slots, node.capacity.slot_type) for node in nodes]
    assert shapes == [*[("big", "left", 8, "h100")] * 2, *[("default", "right", 4, "cpu")] * 2]
    assert [node.capacity.cpus == 96.0 for node in nodes] == [True, True, False, False]
    assert [node.capacity.memory_bytes == 2**40 for node in nodes] == [False, False, True, True]
    assert [node.address for node in nodes][1:3] == ["127.200.0.255", "127.200.1.0"]
    larger = engine.cluster_nodes(replace(cluster, groups=(*cluster.groups, NodeGroup(nodes=1, slots=1))))
    assert larger[:4] == nodes
    assert len(larger) == 5
