"""Commands and questions of the control plane, over fakes: what is refused, ignored and answered."""

from __future__ import annotations

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import InstantCode, Simulation, nodes, spec
from tarmac.control.draining import NodeChoice
from tarmac.control.service import ControlPlane, Submission
from tarmac.model.codec import replace
from tarmac.model.errors import NotFound, Refused
from tarmac.model.lifecycle import IllegalStep, RunState
from tarmac.model.progress import CauseCode, Outcome
from tarmac.model.run import Run
from tarmac.model.spec import LocalDirectory, Queueing, Rehearsal


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(behaviour=lambda _launch: Behaviour(duration_s=60.0), cluster=nodes(2, 4))


@pytest.fixture
def plane(simulation: Simulation) -> ControlPlane:
    return simulation.server.plane


def submit(plane: ControlPlane, key: str | None = None, **wanted: object) -> Run:
    return plane.submit([Submission(spec=spec(**wanted), actor=ADA, idempotency_key=key)])[0].run


def test_a_run_without_code_queues_at_once_and_one_with_code_is_staged_first(
    simulation: Simulation, plane: ControlPlane
) -> None:
    assert submit(plane, slots=1).state is RunState.QUEUED
    run = submit(plane, slots=1, code=LocalDirectory(path="/code"))
    assert run.state is RunState.PENDING
    simulation.server.turn("stage")
    staged = plane.find(ADA, run.id)
    assert (staged.state, staged.code_digest) == (RunState.QUEUED, "digest-of-code")


def test_code_that_cannot_be_kept_now_holds_up_no_other_and_says_why(
    simulation: Simulation, plane: ControlPlane
) -> None:
    """C7: a full disk, say; the run is staged by a later pass, once there is room."""
    large = submit(plane, slots=1, code=LocalDirectory(path="/large"))
    small = submit(plane, slots=1, code=LocalDirectory(path="/small"))
    store = plane.control.code
    assert isinstance(store, InstantCode)
    store.too_large.add("/large")
    simulation.server.turn("stage")
    assert (plane.find(ADA, large.id).state, plane.find(ADA, small.id).state) == (
        RunState.PENDING,
        RunState.QUEUED,
    )
    assert "cannot keep a copy of /large (free some space there)" in plane.why(ADA, large.id).headline
    store.too_large.clear()
    assert plane.find(ADA, large.id).state is RunState.PENDING
    simulation.server.turn("stage")
    assert plane.find(ADA, large.id).state is RunState.QUEUED
    assert plane.control.code_failures == {}


def test_a_defect_that_the_code_of_one_run_brings_to_light_holds_up_no_other(
    simulation: Simulation, plane: ControlPlane
) -> None:
    broken = submit(plane, slots=1, code=LocalDirectory(path="/broken"))
    sound = submit(plane, slots=1, code=LocalDirectory(path="/sound"))
    store = plane.control.code
    assert isinstance(store, InstantCode)
    store.breaks.add("/broken")
    simulation.server.turn("stage")
    assert (plane.find(ADA, broken.id).state, plane.find(ADA, sound.id).state) == (
        RunState.PENDING,
        RunState.QUEUED,
    )
    assert "RecursionError" in plane.why(ADA, broken.id).headline


def test_what_can_never_fit_is_refused_with_the_largest_that_would(plane: ControlPlane) -> None:
    with pytest.raises(Refused) as refused:
        submit(plane, slots=9)
    assert "8" in str(refused.value)
    assert plane.control.store.last_event_id() == 0


def test_a_rehearsal_brings_its_own_nodes_and_takes_them_along(
    simulation: Simulation, plane: ControlPlane
) -> None:
    run = submit(plane, slots=12, rehearsal=Rehearsal(nodes=3, slots_per_node=4))
    assert len(plane.nodes(ADA)) == 2 + 3
    simulation.settle()
    assert plane.find(ADA, run.id).outcome is Outcome.COMPLETED
    assert len(plane.nodes(ADA)) == 2
    (attempt,) = plane.attempts(ADA, run.id)
    assert (len(attempt.allocation.nodes), attempt.allocation.slots) == (3, 12)


def test_the_same_key_is_the_same_run_and_another_spec_under_it_is_refused(plane: ControlPlane) -> None:
    first = plane.submit([Submission(spec=spec(slots=1, source="a"), actor=ADA, idempotency_key="k")])[0]
    again = plane.submit([Submission(spec=spec(slots=1, source="a"), actor=ADA, idempotency_key="k")])[0]
    assert (first.created, again.created) == (True, False)
    assert first.run.id == again.run.id
    with pytest.raises(Refused, match=first.run.id):
        plane.submit([Submission(spec=spec(slots=2, source="b"), actor=ADA, idempotency_key="k")])


def test_commands_that_change_nothing_are_no_errors(simulation: Simulation, plane: ControlPlane) -> None:
    run = submit(plane, slots=1)
    assert plane.resume(ADA, run.id).state is RunState.QUEUED
    assert plane.pause(ADA, run.id).state is RunState.PAUSED
    assert plane.pause(ADA, run.id).state is RunState.PAUSED
    assert plane.stop(ADA, run.id).outcome is Outcome.STOPPED
    assert plane.stop(ADA, run.id).outcome is Outcome.STOPPED
    for verb in (plane.pause, plane.resume):
        with pytest.raises(IllegalStep, match="ended"):
            verb(ADA, run.id)


@pytest.mark.parametrize("code", [None, LocalDirectory(path="/code")])
def test_a_run_that_is_submitted_paused_waits_with_its_code_until_it_is_resumed(
    simulation: Simulation, plane: ControlPlane, code: LocalDirectory | None
) -> None:
    """D12: nothing of it ever runs before."""
    run = submit(plane, slots=1, code=code, start_paused=True)
    simulation.settle()
    aside = plane.find(ADA, run.id)
    assert (aside.state, aside.attempt) == (RunState.PAUSED, 0)
    assert plane.resume(ADA, run.id).state is RunState.QUEUED
    simulation.settle()
    ended = plane.find(ADA, run.id)
    assert (ended.outcome, ended.attempt) == (Outcome.COMPLETED, 1)


def test_a_pause_taken_back_before_the_run_has_left_lets_it_leave_and_queues_it(
    simulation: Simulation, plane: ControlPlane
) -> None:
    """D12: no progress is lost either way."""
    run = submit(plane, slots=1)
    simulation.turn_all()
    simulation.turn_all()
    assert plane.pause(ADA, run.id).state is RunState.PAUSING
    assert plane.resume(ADA, run.id).state is RunState.PREEMPTING
    simulation.settle()
    ended = plane.find(ADA, run.id)
    assert (ended.outcome, ended.attempt) == (Outcome.COMPLETED, 2)


def test_a_run_that_may_not_wait_fails_at_once_with_the_reason(
    simulation: Simulation, plane: ControlPlane
) -> None:
    """C10: the reason is given per node."""
    submit(plane, slots=8)
    simulation.server.turn("schedule")
    late = submit(plane, slots=1, queueing=Queueing.FAIL_IF_BUSY)
    simulation.server.turn("schedule")
    ended = plane.find(ADA, late.id)
    assert ended.outcome is Outcome.FAILED
    assert ended.cause is not None
    assert ended.cause.code is CauseCode.BUSY
    assert ended.cause.reasons == ("node1, node2: 0 of 4 slots free; 1 slot needed; held by train (r00001)",)
    assert ended.cause.message == "; ".join(ended.cause.reasons)


def test_runs_are_found_by_id_name_and_prefix_and_the_nearest_is_offered(plane: ControlPlane) -> None:
    old = submit(plane, name="digits", slots=1)
    new = submit(plane, name="digits", slots=1)
    assert plane.find(ADA, "digits").id == new.id
    assert plane.find(ADA, old.id).id == old.id
    with pytest.raises(Refused, match="several"):
        plane.find(ADA, old.id[:-1])
    with pytest.raises(NotFound) as unknown:
        plane.find(ADA, "digit")
    assert unknown.value.hint is not None
    assert "digits" in unknown.value.hint


def test_why_tells_what_a_run_waits_for_in_every_state(simulation: Simulation, plane: ControlPlane) -> None:
    big = submit(plane, slots=8)
    simulation.server.turn("schedule")
    small = submit(plane, slots=1)
    waiting = plane.why(ADA, small.id)
    assert waiting.headline == "queued: it waits for 1 slot"
    assert {reason.node for reason in waiting.reasons} >= {"node1", "node2"}
    assert waiting.unblocked_by
    assert "started" in plane.why(ADA, big.id).headline
    plane.pause(ADA, small.id)
    assert f"tarmac resume {small.id}" in plane.why(ADA, small.id).headline
    plane.stop(ADA, big.id)
    assert "asked to stop" in plane.why(ADA, big.id).headline
    simulation.settle()
    assert "ended, stopped" in plane.why(ADA, big.id).headline


def test_nodes_tell_what_they_hold_and_drained_ones_take_nothing_new(
    simulation: Simulation, plane: ControlPlane
) -> None:
    run = submit(plane, slots=3)
    simulation.server.turn("schedule")
    (holding,) = [report for report in plane.nodes(ADA) if report.runs]
    assert (holding.slots_used, holding.runs[0].id, holding.runs[0].slots) == (3, run.id, 3)
    other = next(report.node.name for report in plane.nodes(ADA) if not report.runs)
    plane.set_drained(ADA, NodeChoice(names=(other,)), True)
    waits = submit(plane, slots=4)
    simulation.server.turn("schedule")
    assert plane.find(ADA, waits.id).state is RunState.QUEUED
    plane.set_drained(ADA, NodeChoice(names=(other,)), False)
    simulation.server.turn("schedule")
    assert plane.find(ADA, waits.id).state is RunState.STARTING
    with pytest.raises(NotFound, match="node9"):
        plane.set_drained(ADA, NodeChoice(names=("node9",)), True)


def test_a_dry_run_shows_the_launch_and_keeps_nothing(simulation: Simulation, plane: ControlPlane) -> None:
    """What is printed is the engine's own request; a busy cluster adds the reasons it would wait for."""
    free = plane.dry_run(Submission(spec=spec(slots=8), actor=ADA))
    assert free.launch is not None
    assert [node.node for node in free.launch.nodes] == ["node1", "node2"]
    assert str(free.request)
    assert free.reasons == ()
    submit(plane, slots=8)
    simulation.server.turn("schedule")
    busy = plane.dry_run(Submission(spec=spec(slots=8), actor=ADA))
    assert busy.launch is not None
    assert busy.reasons
    never = plane.dry_run(Submission(spec=spec(slots=9), actor=ADA))
    assert never.launch is None
    assert len(list(plane.control.store.live_runs())) == 1


def test_slots_that_cannot_be_split_equally_are_warned_of() -> None:
    """Seven on nodes of six: two nodes, and the difference is said."""
    plane = Simulation(behaviour=lambda _launch: Behaviour(), cluster=nodes(12, 6)).server.plane
    wanted = spec(slots=7)
    role = replace(wanted.roles[0], uneven=True)
    (accepted,) = plane.submit([Submission(spec=replace(wanted, roles=(role,)), actor=ADA)])
    (warning,) = accepted.warnings
    assert warning.startswith("slots: 7 cannot be split equally over few nodes here: 2 nodes get 6 + 1")
    (accepted,) = plane.submit([Submission(spec=spec(slots=12), actor=ADA)])
    assert accepted.warnings == ()
