"""Reserving nodes for a time (I13): who may, which nodes, what overlaps, and what becomes of the runs."""

from __future__ import annotations

import pytest

from actors import ADA, member
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.api.cluster_operations import NodeChoice, ReserveBody
from tarmac.control.service import ControlPlane, Submission
from tarmac.model.actor import Actor
from tarmac.model.cluster import LOCAL_CLUSTER, Pool
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.model.spec import Target

HOUR_S = 3600.0
BOB = member("bob")


def made(**more: object) -> Simulation:
    cluster = nodes(2, 4)
    return Simulation(behaviour=lambda _launch: Behaviour(duration_s=2 * HOUR_S), cluster=cluster, **more)


@pytest.fixture
def simulation() -> Simulation:
    return made()


def plane_of(simulation: Simulation) -> ControlPlane:
    return simulation.server.plane


def body(simulation: Simulation, *names: str, begin_s: float = 0.0, **more: object) -> ReserveBody:
    usual = {"name": "maint", "duration_s": HOUR_S, "begin_at": simulation.clock.now() + begin_s}
    choice = NodeChoice(names=names or ("node1", "node2"), cluster=more.pop("cluster", None))
    return ReserveBody(choice=choice, **{**usual, **more})


def submit(simulation: Simulation, who: Actor = BOB, **wanted: object) -> Run:
    run = plane_of(simulation).submit([Submission(spec=spec(**{"slots": 4, **wanted}), actor=who)])[0].run
    simulation.turn_all()
    return run


def state(simulation: Simulation, run: Run) -> RunState:
    return plane_of(simulation).find(ADA, run.id).state


def advance(simulation: Simulation, seconds: float) -> None:
    simulation.clock.advance(seconds)
    simulation.turn_all()


def test_it_is_remembered_with_its_author_time_and_reason_and_ends_by_itself(simulation: Simulation) -> None:
    now = simulation.clock.now()
    answer = plane_of(simulation).reservations.make(ADA, body(simulation, "node1", reason="new disks"))
    simulation.start()
    assert plane_of(simulation).reservations.all(BOB) == [answer]
    assert (answer.user, answer.at, answer.reason, answer.nodes) == ("ada", now, "new disks", ("node1",))
    first, second = plane_of(simulation).nodes(ADA)
    assert [each.name for each in first.node.reservations] == ["maint"]
    assert second.node.reservations == ()
    advance(simulation, HOUR_S)
    assert plane_of(simulation).reservations.all(BOB) == []
    assert plane_of(simulation).nodes(ADA)[0].node.reservations == ()


def test_others_wait_for_its_end_and_its_project_does_not(simulation: Simulation) -> None:
    plane = plane_of(simulation)
    plane.reservations.make(ADA, body(simulation, projects=("vision",)))
    other = submit(simulation)
    ours = submit(simulation, project="vision")
    assert [state(simulation, run) for run in (other, ours)] == [RunState.QUEUED, RunState.RUNNING]
    reasons = plane.why(BOB, other.id).reasons
    assert {reason.code for reason in reasons if reason.node == "node2"} == {"node_reserved"}
    assert "reserved for project vision from 1970-01-12 13:46 until 1970-01-12 14:46 UTC" in reasons[-1].text
    advance(simulation, HOUR_S)
    assert state(simulation, other) is RunState.RUNNING


def test_the_estimate_of_a_start_knows_the_end(simulation: Simulation) -> None:
    plane_of(simulation).reservations.make(ADA, body(simulation))
    run = submit(simulation)
    estimate = plane_of(simulation).why(BOB, run.id).estimate
    assert estimate is not None
    assert estimate.start_at == simulation.clock.now() + HOUR_S


def test_a_release_gives_the_nodes_back_at_once(simulation: Simulation) -> None:
    plane_of(simulation).reservations.make(ADA, body(simulation))
    run = submit(simulation)
    assert plane_of(simulation).reservations.release(ADA, "maint").name == "maint"
    simulation.turn_all()
    assert state(simulation, run) is RunState.RUNNING
    with pytest.raises(NotFound, match=r"there is no reservation 'maint'.*none"):
        plane_of(simulation).reservations.release(ADA, "maint")


def test_runs_that_are_still_there_are_named_and_continue(simulation: Simulation) -> None:
    limited = submit(simulation, time_limit_s=HOUR_S)
    long = submit(simulation)
    answer = plane_of(simulation).reservations.make(ADA, body(simulation, begin_s=1.5 * HOUR_S))
    assert [(run.id, run.slots) for run in answer.still_there] == [(long.id, 4)]
    assert limited.id != long.id
    advance(simulation, 1.6 * HOUR_S)
    assert state(simulation, long) is RunState.RUNNING
    simulation.settle()
    assert plane_of(simulation).find(ADA, long.id).outcome is Outcome.COMPLETED


def test_with_preempt_they_leave_at_the_begin_and_start_again_after_the_end(simulation: Simulation) -> None:
    long = submit(simulation)
    plane_of(simulation).reservations.make(ADA, body(simulation, begin_s=HOUR_S, preempt=True))
    advance(simulation, 0.9 * HOUR_S)
    assert state(simulation, long) is RunState.RUNNING
    simulation.settle_until(lambda: state(simulation, long) is RunState.QUEUED)
    at = simulation.clock.now()
    simulation.settle_until(lambda: state(simulation, long) is not RunState.QUEUED)
    assert simulation.clock.now() - at <= HOUR_S
    events = simulation.store.events(long.id)
    assert "reserved" in [event.detail.get("reason") for event in events]
    simulation.settle()
    assert plane_of(simulation).find(ADA, long.id).outcome is Outcome.COMPLETED


def test_a_pool_with_preemption_uses_the_nodes_until_the_begin() -> None:
    simulation = made(pools=[Pool(cluster=LOCAL_CLUSTER, preemption=True)])
    plane_of(simulation).reservations.make(ADA, body(simulation, begin_s=HOUR_S))
    long = submit(simulation)
    assert state(simulation, long) is RunState.RUNNING
    simulation.settle_until(lambda: state(simulation, long) is RunState.QUEUED)
    assert simulation.clock.now() < 1_000_000.0 + 1.1 * HOUR_S


def test_repeating_a_request_has_no_effect(simulation: Simulation) -> None:
    reservations = plane_of(simulation).reservations
    request = body(simulation)
    answer = reservations.make(ADA, request)
    simulation.clock.advance(1.0)
    assert reservations.make(ADA, request) == answer
    assert reservations.all(ADA) == [answer]


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"name": "second"}, Refused, "reservation maint has node1 at that time.*nodes release maint"),
        ({"name": "second", "begin_s": HOUR_S - 1}, Refused, "reservation maint has node1"),
        ({"begin_s": 2 * HOUR_S}, Refused, "there is already a reservation maint"),
        ({"name": "second", "begin_s": -2 * HOUR_S}, InvalidInput, "the time of the reservation is over"),
    ],
)
def test_what_overlaps_or_is_over_is_refused(
    simulation: Simulation, more: dict[str, object], error: type[Exception], message: str
) -> None:
    plane_of(simulation).reservations.make(ADA, body(simulation, "node1"))
    with pytest.raises(error, match=message):
        plane_of(simulation).reservations.make(ADA, body(simulation, "node1", **more))
    assert len(plane_of(simulation).reservations.all(ADA)) == 1


def test_a_node_may_have_one_after_another_and_ended_ones_are_removed(simulation: Simulation) -> None:
    reservations = plane_of(simulation).reservations
    reservations.make(ADA, body(simulation, "node1"))
    reservations.make(ADA, body(simulation, "node2", name="beside"))
    reservations.make(ADA, body(simulation, "node1", name="next", begin_s=HOUR_S))
    assert [each.name for each in reservations.all(ADA)] == ["beside", "maint", "next"]
    advance(simulation, HOUR_S)
    reservations.make(ADA, body(simulation, "node2"))
    assert [each.name for each in simulation.store.reservations()] == ["maint", "next"]


def test_only_an_administrator_reserves_and_releases(simulation: Simulation) -> None:
    reservations = plane_of(simulation).reservations
    with pytest.raises(Forbidden):
        reservations.make(BOB, body(simulation))
    reservations.make(ADA, body(simulation))
    with pytest.raises(Forbidden):
        reservations.release(BOB, "maint")


def test_unknown_nodes_and_clusters_with_a_queue_of_their_own_are_refused() -> None:
    simulation = made(batches={"site": nodes(1, 4, cluster="site")})
    reservations = plane_of(simulation).reservations
    with pytest.raises(NotFound, match="there is no node 'node9'"):
        reservations.make(ADA, body(simulation, "node9"))
    with pytest.raises(InvalidInput, match="which nodes"):
        reservations.make(ADA, ReserveBody(name="all", choice=NodeChoice(), begin_at=1e6, duration_s=1e6))
    with pytest.raises(Refused, match=r"site reserves its nodes itself.*scontrol create reservation"):
        reservations.make(ADA, body(simulation, "node1", cluster="site"))


def test_a_drained_node_may_be_reserved_and_stays_drained(simulation: Simulation) -> None:
    plane = plane_of(simulation)
    plane.set_drained(ADA, NodeChoice(names=("node1",)), True, "fan")
    plane.reservations.make(ADA, body(simulation, "node1"))
    (report, _) = plane.nodes(ADA)
    assert (report.node.state, len(report.node.reservations)) == ("drained", 1)
    advance(simulation, HOUR_S)
    run = submit(simulation, target=Target(hostnames=("node1",)))
    assert state(simulation, run) is RunState.QUEUED
