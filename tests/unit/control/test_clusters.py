"""Clusters that come and go: added, replaced and removed without losing a run, whoever crashes."""

from functools import partial

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.api import ClusterKind
from tarmac.control.decisions import steps
from tarmac.control.draining import NodeChoice
from tarmac.control.service import ControlPlane, Submission
from tarmac.model.cluster import Cluster, NodeGroup, NodeState, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome, WorkerPlacement
from tarmac.model.run import Allocation, Run
from tarmac.model.spec import Rehearsal, Target
from tarmac.sched import Placement

SITE = Cluster(
    name="site",
    groups=(
        NodeGroup(nodes=2, slots=8, slot_type="h100", pool="big", prefix="a"),
        NodeGroup(nodes=2, slots=4, slot_type="rtx3090", hostnames=("b1", "b2")),
    ),
    pools=(Pool(name="big", cluster="site", policy=Policy.FAIR_SHARE),),
)


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(behaviour=lambda _launch: Behaviour(duration_s=600.0), cluster=nodes(1, 4))


@pytest.fixture
def plane(simulation: Simulation) -> ControlPlane:
    return simulation.server.plane


def submit(plane: ControlPlane, **wanted: object) -> Run:
    return plane.submit([Submission(spec=spec(**wanted), actor=ADA)])[0].run


def shaped(*groups: NodeGroup) -> Cluster:
    return Cluster(name="site", groups=groups)


def running(simulation: Simulation, **wanted: object) -> Run:
    """A run that runs on the cluster by now."""
    plane = simulation.server.plane
    run = submit(plane, target=Target(cluster="site"), **wanted)
    simulation.turn_all()
    simulation.turn_all()
    assert plane.find(ADA, run.id).state is RunState.RUNNING
    return run


def test_an_added_cluster_is_there_at_once_with_its_rules(plane: ControlPlane) -> None:
    report = plane.clusters.add(ADA, SITE)
    assert (report.name, report.kind, report.nodes) == ("site", ClusterKind.ADDED, 4)
    assert [(pool.name, pool.policy) for pool in report.pools] == [
        ("big", Policy.FAIR_SHARE),
        ("default", Policy.PRIORITY),
    ]
    assert [cluster.name for cluster in plane.clusters.all(ADA)] == ["local", "site"]
    assert {report.node.name for report in plane.nodes(ADA, NodeChoice(cluster="site"))} == {
        "a1.site",
        "a2.site",
        "b1.site",
        "b2.site",
    }


def test_what_waited_for_nodes_starts_on_a_cluster_that_is_added(simulation: Simulation) -> None:
    plane = simulation.server.plane
    first, second = submit(plane, slots=4), submit(plane, slots=4)
    simulation.turn_all()
    assert [plane.find(ADA, run.id).state for run in (first, second)] == [RunState.RUNNING, RunState.QUEUED]
    plane.clusters.add(ADA, SITE)
    simulation.turn_all()
    assert plane.attempts(ADA, second.id)[0].allocation.cluster == "site"


def test_it_outlives_the_server(simulation: Simulation) -> None:
    simulation.server.plane.clusters.add(ADA, SITE)
    before = simulation.server.plane.clusters.show(ADA, "site")
    assert simulation.start().plane.clusters.show(ADA, "site") == before


@pytest.mark.parametrize("write", [1, 2])
def test_a_server_that_dies_while_adding_has_all_of_it_or_nothing(simulation: Simulation, write: int) -> None:
    """The same description again, after a crash before or after the write, makes the same cluster."""
    calls = iter(range(1, 100))

    def crash() -> None:
        if next(calls) == write:
            raise Crash

    store = simulation.store
    put = store.put_cluster

    def interrupted(cluster: Cluster) -> None:
        crash()
        put(cluster)
        crash()

    store.put_cluster = interrupted  # type: ignore[method-assign]
    assert not simulation.survive(lambda: simulation.server.plane.clusters.add(ADA, SITE))
    store.put_cluster = put  # type: ignore[method-assign]
    known = [cluster.name for cluster in simulation.server.plane.clusters.all(ADA)]
    assert known == (["local"] if write == 1 else ["local", "site"])
    simulation.server.plane.clusters.add(ADA, SITE)
    assert simulation.server.plane.clusters.show(ADA, "site").nodes == 4
    assert len(store.clusters()) == 1


def test_the_same_description_again_changes_nothing(plane: ControlPlane) -> None:
    """A request may be sent twice, when a connection breaks."""
    first = plane.clusters.add(ADA, SITE)
    writes = plane.control.store.writes  # type: ignore[attr-defined]
    assert plane.clusters.add(ADA, SITE) == first
    assert plane.control.store.writes == writes  # type: ignore[attr-defined]


def test_another_shape_of_the_same_name_wants_to_be_told_so(plane: ControlPlane) -> None:
    plane.clusters.add(ADA, SITE)
    other = shaped(NodeGroup(nodes=1, slots=1))
    with pytest.raises(Refused, match="already, of another shape") as refused:
        plane.clusters.add(ADA, other)
    assert "--replace" in str(refused.value.hint)
    assert plane.clusters.show(ADA, "site").nodes == 4
    assert plane.clusters.add(ADA, other, replacing=True).nodes == 1


def test_the_engines_own_cluster_is_neither_replaced_nor_removed(plane: ControlPlane) -> None:
    local = Cluster(name="local", groups=(NodeGroup(nodes=1, slots=1),))
    with pytest.raises(Refused, match="cannot be called 'local'"):
        plane.clusters.add(ADA, local, replacing=True)
    with pytest.raises(Refused, match="own cluster"):
        plane.clusters.remove(ADA, "local")


def test_an_unknown_name_is_told_with_the_nearest(plane: ControlPlane) -> None:
    plane.clusters.add(ADA, SITE)
    for ask in (partial(plane.clusters.show, ADA), partial(plane.clusters.remove, ADA)):
        with pytest.raises(NotFound, match=r"did you mean site\?"):
            ask("sit")


def test_a_run_on_a_node_that_stays_goes_on(simulation: Simulation) -> None:
    plane = simulation.server.plane
    plane.clusters.add(ADA, SITE)
    run = running(simulation, slots=16)
    smaller = plane.clusters.add(
        ADA, shaped(NodeGroup(nodes=3, slots=8, slot_type="h100", pool="big", prefix="a")), replacing=True
    )
    assert [(kind.nodes, kind.hostnames) for kind in smaller.node_kinds] == [(3, ["a1", "a3"])]
    simulation.settle()
    assert plane.find(ADA, run.id).outcome is Outcome.COMPLETED
    assert len(plane.attempts(ADA, run.id)) == 1


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ((NodeGroup(nodes=1, slots=8, pool="big", prefix="a"),), "holds a2.site, which would be gone"),
        ((NodeGroup(nodes=2, slots=7, pool="big", prefix="a"),), "which would have 7 slots"),
        ((NodeGroup(nodes=2, slots=8, pool="small", prefix="a"),), "which would be in pool small"),
    ],
)
def test_what_runs_hold_is_not_taken_away(
    simulation: Simulation, groups: tuple[NodeGroup, ...], reason: str
) -> None:
    plane = simulation.server.plane
    plane.clusters.add(ADA, SITE)
    run = running(simulation, slots=16)
    with pytest.raises(Refused, match=reason) as refused:
        plane.clusters.add(ADA, shaped(*groups), replacing=True)
    assert run.id in str(refused.value)
    for ask in (plane.clusters.check_removal, plane.clusters.remove):
        with pytest.raises(Refused, match=r"holds a1\.site, which would be gone"):
            ask(ADA, "site")
    assert plane.clusters.show(ADA, "site").nodes == 4


def test_what_runs_wait_for_is_not_taken_away(simulation: Simulation) -> None:
    """A run that named the cluster, and one that named none but fits nowhere else, would be left to fail."""
    plane = simulation.server.plane
    plane.clusters.add(ADA, SITE)
    plane.set_drained(ADA, NodeChoice(cluster="site"), True)
    named = submit(plane, slots=1, target=Target(cluster="site"))
    large = submit(plane, slots=16)
    small = submit(plane, slots=4)
    with pytest.raises(Refused) as refused:
        plane.clusters.remove(ADA, "site")
    assert named.id in str(refused.value)
    assert large.id in str(refused.value)
    assert small.id not in str(refused.value)
    plane.stop(ADA, large.id)
    with pytest.raises(Refused, match=named.id):
        plane.clusters.remove(ADA, "site")
    assert plane.clusters.add(ADA, shaped(NodeGroup(nodes=1, slots=1)), replacing=True).nodes
    plane.stop(ADA, named.id)
    plane.clusters.remove(ADA, "site")
    simulation.settle()
    assert plane.find(ADA, small.id).outcome is Outcome.COMPLETED


def test_a_paused_run_keeps_what_it_needs_to_be_resumed(simulation: Simulation) -> None:
    plane = simulation.server.plane
    plane.clusters.add(ADA, SITE)
    run = running(simulation, slots=16)
    plane.pause(ADA, run.id)
    simulation.settle()
    assert plane.find(ADA, run.id).state is RunState.PAUSED
    with pytest.raises(Refused, match=rf"train \({run.id}, paused\)"):
        plane.clusters.remove(ADA, "site")
    plane.resume(ADA, run.id)
    simulation.settle()
    assert plane.find(ADA, run.id).outcome is Outcome.COMPLETED
    plane.clusters.remove(ADA, "site")


def test_a_placement_on_a_cluster_that_went_meanwhile_is_not_made(simulation: Simulation) -> None:
    """The cluster goes between the scheduler's decision and its record: the run is decided on anew."""
    plane = simulation.server.plane
    plane.clusters.add(ADA, SITE)
    run = submit(plane, slots=4)
    placement = WorkerPlacement(role="main", replica=0, node="b1.site", slots=(0, 1, 2, 3))
    allocation = Allocation(cluster="site", placements=(placement,))
    decided = Placement(run_id=run.id, seq=run.seq, allocation=allocation)
    plane.clusters.remove(ADA, "site")
    step = steps.placed(run, decided, engine="sim", token="t", port=1, now=simulation.clock.now())
    assert plane.control.commit([step]) == [False]
    assert plane.find(ADA, run.id).state is RunState.QUEUED
    simulation.turn_all()
    (attempt,) = plane.attempts(ADA, run.id)
    assert attempt.allocation.cluster == "local"


def test_a_removed_cluster_is_gone_for_good_and_leaves_no_mark(simulation: Simulation) -> None:
    plane = simulation.server.plane
    plane.clusters.add(ADA, SITE)
    plane.set_drained(ADA, NodeChoice(cluster="site"), True)
    assert plane.clusters.remove(ADA, "site").name == "site"
    assert [cluster.name for cluster in simulation.start().plane.clusters.all(ADA)] == ["local"]
    assert simulation.store.drained_nodes() == {}


def test_marks_that_a_dying_server_left_do_not_drain_a_new_cluster(simulation: Simulation) -> None:
    plane = simulation.server.plane
    plane.clusters.add(ADA, SITE)
    plane.set_drained(ADA, NodeChoice(cluster="site"), True)
    simulation.store.remove_cluster("site")  # and then it died
    plane = simulation.start().plane
    states = {state for kind in plane.clusters.add(ADA, SITE).node_kinds for state in kind.states}
    assert states == {NodeState.UP}


def test_a_node_cannot_be_called_like_one_of_this_machine() -> None:
    own = [replace(node, name="a.b") for node in nodes(1, 4)]
    plane = Simulation(behaviour=lambda _launch: Behaviour(), cluster=own).server.plane
    with pytest.raises(InvalidInput, match=r"two nodes would be called 'a\.b': of cluster local and of b"):
        plane.clusters.add(ADA, Cluster(name="b", groups=(NodeGroup(nodes=1, slots=1, hostnames=("a",)),)))


def test_the_cluster_of_a_rehearsal_can_be_looked_at(simulation: Simulation) -> None:
    plane = simulation.server.plane
    run = submit(plane, slots=16, rehearsal=Rehearsal(described=SITE), target=Target(pool="big"))
    name = f"rehearsal-{run.id}"
    report = plane.clusters.show(ADA, name)
    assert (report.kind, [pool.policy for pool in report.pools]) == (
        ClusterKind.REHEARSAL,
        [Policy.FAIR_SHARE, Policy.PRIORITY],
    )
    assert name not in {cluster.name for cluster in plane.clusters.all(ADA)}
    with pytest.raises(Refused, match="goes when its run has ended"):
        plane.clusters.remove(ADA, name)
    simulation.settle()
    (attempt,) = plane.attempts(ADA, run.id)
    assert (attempt.allocation.cluster, attempt.allocation.pool) == (name, "big")
    assert attempt.allocation.nodes == (f"a1.{run.id}", f"a2.{run.id}")


# --- clusters with an engine of their own

BATCH = Cluster(name="batch", engine="sim-batch", settings={"partition": "gpu"}, credentials={"ssh": "key"})


@pytest.fixture
def with_kind() -> Simulation:
    """A server that knows a kind of batch systems; such a system of two nodes is at `batch`."""
    return Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=600.0),
        cluster=nodes(1, 4),
        described={"batch": nodes(2, 8, cluster="batch")},
    )


def test_a_cluster_of_another_kind_has_an_engine_of_its_own_for_as_long_as_it_is_described(
    with_kind: Simulation,
) -> None:
    plane = with_kind.server.plane
    report = plane.clusters.add(ADA, BATCH)
    assert (report.engine, report.delegated, report.trouble, report.nodes) == (
        "sim-batch",
        True,
        None,
        2,
    )
    assert [cluster.name for cluster in plane.clusters.all(ADA)] == ["local", "batch"]
    assert plane.clusters.add(ADA, BATCH) == report
    run = submit(plane, slots=16, target=Target(cluster="batch"))
    with_kind.settle_until(lambda: plane.find(ADA, run.id).state is RunState.RUNNING)
    with pytest.raises(Refused, match="holds batch1, which would be gone"):
        plane.clusters.remove(ADA, "batch")
    with_kind.settle()
    assert plane.find(ADA, run.id).outcome is Outcome.COMPLETED
    assert plane.clusters.remove(ADA, "batch").name == "batch"
    assert with_kind.store.clusters() == []
    with pytest.raises(Refused, match="can never start here"):
        submit(plane, slots=1, target=Target(cluster="batch"))


def test_the_refusal_of_an_unknown_cluster_names_delegated_ones_and_suggests(with_kind: Simulation) -> None:
    (plane := with_kind.server.plane).clusters.add(ADA, BATCH)
    for name, words in (("bacth", "did you mean batch?"), ("moon", "clusters: batch, local;")):
        with pytest.raises(Refused, match=f"there is no cluster '{name}'") as refused:
            submit(plane, slots=1, target=Target(cluster=name))
        assert str(refused.value.hint).startswith(words)


def test_it_is_there_again_after_the_server_died_and_what_waits_in_it_goes_on(with_kind: Simulation) -> None:
    with_kind.server.plane.clusters.add(ADA, BATCH)
    batch = with_kind.batches["batch"]
    batch.closed = True
    run = submit(with_kind.server.plane, slots=1, target=Target(cluster="batch"))
    with_kind.settle_until(lambda: bool(batch.waiting()))
    plane = with_kind.start().plane
    with_kind.turn_all()
    assert plane.find(ADA, run.id).state is RunState.SUBMITTED
    with pytest.raises(Refused, match="waits in its queue"):
        plane.clusters.remove(ADA, "batch")
    batch.closed = False
    with_kind.settle()
    assert plane.find(ADA, run.id).outcome is Outcome.COMPLETED


def test_what_runs_on_a_cluster_of_a_kind_that_this_server_lacks_is_not_taken_for_lost(
    with_kind: Simulation,
) -> None:
    """An older tarmac is started by mistake: nothing is known of such a cluster, nothing done to it."""
    with_kind.server.plane.clusters.add(ADA, BATCH)
    run = submit(with_kind.server.plane, slots=1, target=Target(cluster="batch"))
    with_kind.settle_until(lambda: with_kind.store.run(run.id).state is RunState.RUNNING)
    kinds, with_kind.kinds = with_kind.kinds, {}
    plane = with_kind.start().plane
    for _ in range(5):
        with_kind.turn_all()
        with_kind.clock.advance(100.0)
    assert plane.find(ADA, run.id).state is RunState.RUNNING
    assert plane.clusters.show(ADA, "batch").trouble == "this server has no engine of the kind 'sim-batch'"
    (finding,) = plane.clusters.examine(ADA, "batch")
    assert not finding.ok
    with_kind.kinds = kinds
    plane = with_kind.start().plane
    with_kind.settle()
    assert (plane.find(ADA, run.id).outcome, plane.find(ADA, run.id).faults) == (Outcome.COMPLETED, 0)


def test_a_description_that_no_engine_can_be_opened_with_is_refused(with_kind: Simulation) -> None:
    plane = with_kind.server.plane
    with pytest.raises(InvalidInput, match="there is no engine 'sim-bach' here") as unknown:
        plane.clusters.add(ADA, replace(BATCH, engine="sim-bach"))
    assert "did you mean sim-batch?" in str(unknown.value.hint)
    with pytest.raises(InvalidInput, match="a partition is missing"):
        plane.clusters.add(ADA, replace(BATCH, settings={}))
    with pytest.raises(InvalidInput, match="takes no settings"):
        plane.clusters.add(ADA, replace(SITE, settings={"a": 1}))
    with pytest.raises(InvalidInput, match="has no nodes"):
        plane.clusters.add(ADA, replace(SITE, groups=()))
    assert with_kind.store.clusters() == []


def test_a_cluster_can_be_examined(with_kind: Simulation) -> None:
    plane = with_kind.server.plane
    plane.clusters.add(ADA, BATCH)
    assert [(finding.what, finding.ok, finding.text) for finding in plane.clusters.examine(ADA, "batch")] == [
        ("engine", True, "sim-batch answers"),
        ("nodes", True, "2 nodes, 16 slots"),
    ]
    with_kind.batches["batch"].unreachable = True
    (finding,) = plane.clusters.examine(ADA, "batch")
    assert (finding.ok, finding.text) == (False, "the simulated batch system cannot be reached")
    with pytest.raises(NotFound, match=r"did you mean batch\?"):
        plane.clusters.examine(ADA, "bach")
