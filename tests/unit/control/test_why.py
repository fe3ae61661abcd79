"""What a person is told who asks why a run waits: who is ahead, and when it is likely to start."""

from __future__ import annotations

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.control.service import ControlPlane, Submission
from tarmac.model.errors import Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import CauseCode
from tarmac.model.run import Run
from tarmac.model.spec import Queueing

RUNS_S = 600.0


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(behaviour=lambda _launch: Behaviour(duration_s=RUNS_S), cluster=nodes(2, 4))


@pytest.fixture
def plane(simulation: Simulation) -> ControlPlane:
    return simulation.server.plane


def submit(plane: ControlPlane, **wanted: object) -> Run:
    return plane.submit([Submission(spec=spec(**wanted), actor=ADA)])[0].run


def go_on(simulation: Simulation, seconds: float = 1.0) -> None:
    """Let everything that is due be done, and time pass."""
    for _ in range(3):
        simulation.turn_all()
        simulation.clock.advance(seconds / 3)
    simulation.turn_all()


def test_i5_who_is_ahead_is_told_by_name(simulation: Simulation, plane: ControlPlane) -> None:
    submit(plane, slots=8, name="big")
    go_on(simulation)
    ahead = [submit(plane, slots=8, name=f"before{number}") for number in range(6)]
    told = plane.why(ADA, submit(plane, slots=8).id)
    assert told.ahead == 6
    assert [(run.id, run.name) for run in told.ahead_first] == [(run.id, run.name) for run in ahead[:4]]


def test_i5_what_it_waits_for_is_told_by_name(simulation: Simulation, plane: ControlPlane) -> None:
    """In the sentences, on each node, and as fields of their own."""
    held = [submit(plane, slots=1, name=f"small{number}") for number in range(6)]
    go_on(simulation)
    told = plane.why(ADA, submit(plane, slots=8).id)
    assert told.awaits == 6
    assert [(run.id, run.name) for run in told.awaits_first] == [(run.id, run.name) for run in held[:4]]
    named = [f"{run.name} ({run.id})" for run in held]
    assert told.unblocked_by.startswith(f"It starts when runs {', '.join(named[:4])} and 2 others have ended")
    (busy,) = [reason.text for reason in told.reasons if "held by" in reason.text and "small0" in reason.text]
    assert named[0] in busy


def test_i5_for_whom_nodes_are_kept_is_told_by_name(simulation: Simulation, plane: ControlPlane) -> None:
    submit(plane, slots=4, time_limit_s=3600.0)
    go_on(simulation)
    big = submit(plane, slots=8, name="big")
    told = plane.why(ADA, submit(plane, slots=4).id)
    assert f"kept for big ({big.id}), which is ordered before" in " ".join(item.text for item in told.reasons)


def test_without_limits_and_history_it_says_that_nothing_is_known(
    simulation: Simulation, plane: ControlPlane
) -> None:
    submit(plane, slots=8)
    go_on(simulation)
    estimate = plane.why(ADA, submit(plane, slots=8).id).estimate
    assert estimate is not None
    assert (estimate.start_at, estimate.latest_at, estimate.basis) == (None, None, "unknown")
    assert "not known" in estimate.text


def test_with_time_limits_it_says_when_at_the_latest(simulation: Simulation, plane: ControlPlane) -> None:
    submit(plane, slots=8, time_limit_s=3600.0)
    go_on(simulation)
    estimate = plane.why(ADA, submit(plane, slots=8).id).estimate
    assert estimate is not None
    assert estimate.basis == "time limits"
    assert estimate.start_at == estimate.latest_at == pytest.approx(simulation.clock.now() + 3600.0, abs=5.0)
    assert "in about 60 min" in estimate.text


def test_what_has_ended_before_tells_when_it_is_likely_to_start(
    simulation: Simulation, plane: ControlPlane
) -> None:
    for _ in range(8):
        submit(plane, slots=8, name="train", time_limit_s=6000.0)
    simulation.settle()
    first = submit(plane, slots=8, name="train", time_limit_s=6000.0)
    go_on(simulation)
    waiting = submit(plane, slots=8, name="train")
    estimate = plane.why(ADA, waiting.id).estimate
    assert estimate is not None
    assert estimate.basis == "history"
    assert estimate.start_at == pytest.approx(simulation.clock.now() + RUNS_S, abs=10.0)
    assert estimate.latest_at == pytest.approx(simulation.clock.now() + 6000.0, abs=10.0)
    simulation.clock.advance_to(estimate.start_at + 5.0)
    go_on(simulation)
    assert plane.find(ADA, first.id).state is RunState.ENDED
    assert plane.find(ADA, waiting.id).state is RunState.RUNNING, "it started when it was said to"


def test_c10_a_run_that_may_not_wait_ends_with_the_reason_of_each_node(
    simulation: Simulation, plane: ControlPlane
) -> None:
    holder = submit(plane, slots=6)
    go_on(simulation)
    run = submit(plane, replicas=1, each=2, queueing=Queueing.FAIL_IF_BUSY)
    go_on(simulation)
    ended = plane.find(ADA, run.id)
    assert ended.state is RunState.ENDED
    assert ended.cause is not None
    assert ended.cause.code is CauseCode.BUSY
    for node in ("node1", "node2"):
        assert node in ended.cause.message
    assert f"held by {holder.name} ({holder.id})" in ended.cause.message


def test_c10_what_never_fits_is_refused_with_the_largest_that_would(plane: ControlPlane) -> None:
    with pytest.raises(Refused) as refused:
        submit(plane, replicas=3, each=4)
    assert refused.value.hint == "what would fit: 2 of the 3 replicas"


def test_m2_what_fits_nowhere_here_can_be_tried_on_a_rehearsal(plane: ControlPlane) -> None:
    """A file that was written for another cluster: its slots are of a type that nothing here has."""
    with pytest.raises(Refused, match="h100") as refused:
        submit(plane, replicas=2, each=8, slot_type="h100")
    assert str(refused.value.hint).startswith("--rehearse 2x8 ")
