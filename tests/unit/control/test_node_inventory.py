"""Nodes and pools as the scheduler gets them: one tuple while nothing changes, and the rules of each pool."""

from __future__ import annotations

import pytest

from actors import ADA
from scratch_store import ScratchStore
from sim_engine import Behaviour, SimEngine
from simulated import CountingIds, InstantCode, Simulation, nodes, spec
from tarmac.control.draining import NodeChoice
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.control_state import ControlState
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.cluster import Cluster, Node, NodeGroup, NodeState, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.run import Run
from tarmac.model.spec import Rehearsal

SITE = Cluster(
    name="site",
    groups=(NodeGroup(nodes=2, slots=8, pool="big"), NodeGroup(nodes=1, slots=4)),
    pools=(Pool(name="big", cluster="site", policy=Policy.FAIR_SHARE),),
)


def plane_of(own: list[Node], *pools: Pool) -> ControlPlane:
    clock = VirtualClock(1_000_000.0)
    return ControlPlane(
        ControlState(
            store=ScratchStore(),
            engine=SimEngine(clock, own),
            code=InstantCode(),
            clock=clock,
            ids=CountingIds(),
            pools=pools,
        ),
    )


def submit(plane: ControlPlane, **wanted: object) -> Run:
    return plane.submit([Submission(spec=spec(**wanted), actor=ADA)])[0].run


def rules(plane: ControlPlane) -> dict[tuple[str, str], Pool]:
    """The pools that the scheduler is told of, by cluster and name."""
    return {pool.key: pool for pool in plane.control.scheduler_state.snapshot().pools}


def test_while_nothing_changes_it_is_the_same_object() -> None:
    """A pass over ten thousand nodes that did not change looks at none of them."""
    plane = plane_of(nodes(3, 8))
    plane.clusters.add(ADA, SITE)
    plane.set_drained(ADA, NodeChoice(names=("node1",)), True)
    submit(plane, slots=8, rehearsal=Rehearsal(nodes=2, slots_per_node=4))
    pools, found = plane.control.offer()
    plane.control.clock.advance(5.0)  # type: ignore[attr-defined]
    submit(plane, slots=1)
    again = plane.control.offer()
    assert again[0] is pools
    assert again[1] is found
    assert plane.control.lasting_nodes() is plane.control.lasting_nodes()


def test_every_change_of_a_node_is_seen_at_once() -> None:
    simulation = Simulation(behaviour=lambda _launch: Behaviour(), cluster=nodes(1, 4))
    plane = simulation.server.plane

    def states() -> dict[str, NodeState]:
        return {node.name: node.state for node in plane.control.nodes()}

    assert states() == {"node1": NodeState.UP}
    plane.clusters.add(ADA, SITE)
    assert states() == dict.fromkeys(["node1", "node1.site", "node2.site", "node3.site"], NodeState.UP)
    simulation.engine.set_node("node1", NodeState.LOST)
    simulation.engine.set_node("node2.site", NodeState.DOWN)
    plane.set_drained(ADA, NodeChoice(names=("node2.site", "node3.site")), True)
    assert states() == {
        "node1": NodeState.LOST,
        "node1.site": NodeState.UP,
        "node2.site": NodeState.DOWN,  # it is down, whatever a person said of it
        "node3.site": NodeState.DRAINED,
    }
    simulation.engine.set_node("node2.site", NodeState.UP)
    assert states()["node2.site"] is NodeState.DRAINED
    run = submit(plane, slots=2, rehearsal=Rehearsal(nodes=1, slots_per_node=2))
    assert f"node1.{run.id}" in states()
    plane.stop(ADA, run.id)
    assert f"node1.{run.id}" not in states()


def test_the_rules_of_pools_reach_the_scheduler() -> None:
    """I11, I12: a turn, a period, a policy of a pool are what the scheduler plans with."""
    own = [replace(node, pool=pool) for node, pool in zip(nodes(2, 8), ("default", "test"), strict=True)]
    plane = plane_of(own, Pool(cluster="local", turn_s=5.0, period_s=60.0, floor_s=10.0))
    plane.clusters.add(ADA, SITE)
    found = rules(plane)
    assert found.keys() == {
        ("local", "default"),
        ("local", "test"),
        ("site", "big"),
        ("site", "default"),
    }
    assert (found["local", "default"].turn_s, found["local", "default"].floor_s) == (5.0, 10.0)
    assert found["local", "test"] == Pool(name="test", cluster="local")
    assert found["site", "big"].policy is Policy.FAIR_SHARE
    assert found["site", "default"] == Pool(cluster="site")


def test_a_changed_description_changes_the_rules() -> None:
    plane = plane_of(nodes(1, 8))
    plane.clusters.add(ADA, SITE)
    assert rules(plane)["site", "big"].turn_s == 90.0
    quick = replace(SITE, pools=(Pool(name="big", cluster="site", turn_s=3.0),))
    plane.clusters.add(ADA, quick, replacing=True)
    assert rules(plane)["site", "big"].turn_s == 3.0


@pytest.mark.parametrize(
    ("rehearsal", "turn_s"),
    [
        (Rehearsal(nodes=2, slots_per_node=8), 5.0),
        (Rehearsal(described=Cluster(name="r", groups=SITE.groups[1:])), 5.0),
        (
            Rehearsal(
                described=Cluster(name="r", groups=SITE.groups[1:], pools=(Pool(cluster="r", turn_s=7.0),))
            ),
            7.0,
        ),
    ],
)
def test_a_rehearsal_has_the_rules_of_this_machine_where_it_has_none(
    rehearsal: Rehearsal, turn_s: float
) -> None:
    """A shortened clock is a setting: a rehearsal of a cycle run has turns that are short enough to watch."""
    plane = plane_of(nodes(1, 8), Pool(cluster="local", turn_s=5.0))
    run = submit(plane, slots=4, rehearsal=rehearsal)
    assert rules(plane)[f"rehearsal-{run.id}", "default"].turn_s == turn_s


def test_a_description_of_the_engines_own_cluster_brings_rules_alone() -> None:
    """A simulation gives its cluster's nodes to the engine, and its rules to the store."""
    plane = plane_of([replace(node, pool="big") for node in nodes(2, 8)])
    plane.control.store.put_cluster(
        replace(SITE, name="local", pools=(Pool(name="big", cluster="local", turn_s=3.0),))
    )
    assert len(plane.nodes(ADA)) == 2
    assert rules(plane)["local", "big"].turn_s == 3.0
