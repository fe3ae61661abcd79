"""Draining nodes: by name, by host name, by cluster, pool and shard; all of them or none."""

from __future__ import annotations

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.control.draining import NodeChoice
from tarmac.control.reports import NodeReport
from tarmac.control.service import ControlPlane, Submission
from tarmac.model.cluster import Cluster, NodeGroup, NodeState
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.spec import Rehearsal, Target

LEFT = Cluster(
    name="left",
    groups=(
        NodeGroup(nodes=2, slots=8, pool="big", shard="s1", prefix="a"),
        NodeGroup(nodes=2, slots=8, pool="big", shard="s2", prefix="b"),
        NodeGroup(nodes=1, slots=4, pool="small", shard="s1", hostnames=("c",)),
    ),
)
RIGHT = Cluster(name="right", groups=(NodeGroup(nodes=1, slots=8, pool="big", prefix="a"),))


@pytest.fixture
def simulation() -> Simulation:
    made = Simulation(behaviour=lambda _launch: Behaviour(duration_s=60.0), cluster=nodes(1, 4))
    for cluster in (LEFT, RIGHT):
        made.server.plane.clusters.add(ADA, cluster)
    return made


@pytest.fixture
def plane(simulation: Simulation) -> ControlPlane:
    return simulation.server.plane


def drained(plane: ControlPlane) -> set[str]:
    return {report.node.name for report in plane.nodes(ADA) if report.node.state is NodeState.DRAINED}


@pytest.mark.parametrize(
    ("choice", "meant"),
    [
        (NodeChoice(names=("a1.left", "b2.left")), {"a1.left", "b2.left"}),
        (NodeChoice(names=("c", "node1")), {"c.left", "node1"}),
        (NodeChoice(names=("a1",), cluster="right"), {"a1.right"}),
        (NodeChoice(cluster="left", shard="s1"), {"a1.left", "a2.left", "c.left"}),
        (NodeChoice(pool="big", shard="s2"), {"b1.left", "b2.left"}),
        (NodeChoice(pool="big"), {"a1.left", "a2.left", "b1.left", "b2.left", "a1.right"}),
    ],
)
def test_the_nodes_that_are_meant_and_no_others(
    plane: ControlPlane, choice: NodeChoice, meant: set[str]
) -> None:
    assert {report.node.name for report in plane.set_drained(ADA, choice, True)} == meant
    assert drained(plane) == meant
    plane.set_drained(ADA, choice, False)
    assert drained(plane) == set()


@pytest.mark.parametrize(
    ("choice", "error", "message"),
    [
        (NodeChoice(), InvalidInput, "which nodes"),
        (NodeChoice(names=("c", "a1.lefd")), NotFound, "there is no node 'a1.lefd'.*did you mean a1.left"),
        (NodeChoice(names=("c", "a1")), Refused, "several nodes have the host name 'a1'.*a1.left, a1.right"),
        (NodeChoice(cluster="lefd"), NotFound, "no node is in cluster 'lefd'; there is left, local, right"),
        (NodeChoice(cluster="left", pool="tiny"), NotFound, "no node is in pool 'tiny'"),
        (NodeChoice(cluster="right", shard="s1"), NotFound, "no node is in cluster 'right' and shard 's1'"),
        (NodeChoice(names=("b1.left",), shard="s1"), NotFound, "there is no node 'b1.left'"),
    ],
)
def test_a_choice_that_means_nothing_drains_nothing(
    plane: ControlPlane, choice: NodeChoice, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        plane.set_drained(ADA, choice, True)
    assert drained(plane) == set()


def test_a_node_of_a_rehearsal_is_never_meant_by_its_host_name(plane: ControlPlane) -> None:
    wanted = spec(slots=8, rehearsal=Rehearsal(nodes=2, slots_per_node=4))
    run = plane.submit([Submission(spec=wanted, actor=ADA)])[0].run
    plane.set_drained(ADA, NodeChoice(names=("node1",)), True)
    with pytest.raises(NotFound):
        plane.set_drained(ADA, NodeChoice(names=("node2",)), True)
    assert drained(plane) == {"node1"}
    plane.set_drained(ADA, NodeChoice(names=(f"node2.{run.id}",)), True)
    assert drained(plane) == {"node1", f"node2.{run.id}"}


def test_what_runs_on_a_drained_node_goes_on_and_nothing_new_comes(simulation: Simulation) -> None:
    """Section 8 of the design: a drained node takes no new work; its runs end there."""
    plane = simulation.server.plane
    target = Target(cluster="right")
    first = plane.submit([Submission(spec=spec(slots=4, target=target), actor=ADA)])[0].run
    simulation.turn_all()
    (report,) = plane.set_drained(ADA, NodeChoice(cluster="right"), True)
    assert [run.id for run in report.runs] == [first.id]
    second = plane.submit([Submission(spec=spec(slots=4, target=target), actor=ADA)])[0].run
    simulation.clock.advance(120.0)
    simulation.turn_all()
    assert plane.find(ADA, first.id).outcome is Outcome.COMPLETED
    assert plane.find(ADA, second.id).state is RunState.QUEUED
    plane.set_drained(ADA, NodeChoice(names=("a1.right",)), False)
    simulation.settle()
    assert plane.find(ADA, second.id).outcome is Outcome.COMPLETED


def test_why_a_node_is_drained_stays_until_it_takes_work_again(plane: ControlPlane) -> None:
    """The reason, the user and the time; draining once more changes them only with another reason."""
    choice = NodeChoice(names=("c.left",))

    def drain_of(reports: list[NodeReport]) -> tuple[str | None, str, str]:
        ((node, drain),) = [(report.node, report.node.drain) for report in reports]
        assert drain is not None
        assert drain.at is not None
        return drain.user, drain.reason, node.reason

    assert drain_of(plane.set_drained(ADA, choice, True, "fan is loud")) == (
        "ada",
        "fan is loud",
        "fan is loud",
    )
    assert drain_of(plane.set_drained(ADA, choice, True))[1] == "fan is loud"
    assert drain_of(plane.set_drained(ADA, choice, True, "fan is dead"))[1] == "fan is dead"
    (report,) = plane.set_drained(ADA, choice, False)
    assert report.node.drain is None
    assert report.node.reason == ""
