"""What an engine promises whose system has a queue of its own (`model.abilities.Delegates`)."""

from __future__ import annotations

from typing import Any

import pytest

from engine_harness import LOG, Work, ended, running, started, submit
from tarmac.model.abilities import Delegates, OffersNodes
from tarmac.model.errors import NotFound
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Outcome

pytestmark = pytest.mark.xdist_group("slurm")


@pytest.fixture
def harness(delegated: Any) -> Any:
    """One for each kind."""
    return delegated


def seen(harness: Any, attempt: str) -> Observation:
    found: Observation = harness.engine.observe([attempt])[attempt]
    return found


def test_it_offers_no_nodes_and_says_what_can_be_asked_for(harness: Any) -> None:
    engine = harness.engine
    assert isinstance(engine, Delegates)
    assert not isinstance(engine, OffersNodes)
    assert engine.capacity() is engine.capacity()
    assert {node.capacity.slots for node in engine.capacity()} == {4}


def test_an_attempt_waits_there_as_a_native_job_and_then_says_where_it_runs(harness: Any) -> None:
    harness.hold_the_queue(True)
    attempt = submit(harness, Work(output="here", lasts=True), nodes=2)
    waits = seen(harness, attempt)
    assert waits.state is ObservedState.SUBMITTED
    assert waits.native is not None
    assert waits.native.id
    assert waits.native.reason
    assert (waits.claimed_at, waits.started_at, waits.granted_at, waits.nodes) == (None, None, None, ())
    assert harness.engine.workers(attempt) == ()
    with pytest.raises(NotFound):
        harness.engine.read(attempt, LOG)
    harness.hold_the_queue(False)
    runs = harness.settle(attempt, running)
    assert runs.native is not None
    assert runs.native.id == waits.native.id
    assert runs.granted_at is not None
    assert len(set(runs.nodes)) == 2
    assert {worker.node for worker in harness.engine.workers(attempt)} == set(runs.nodes)
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert harness.settle(attempt, ended).outcome is Outcome.STOPPED


@pytest.mark.parametrize(
    ("ask", "outcome"),
    [
        (LeaveRequest.PAUSE, Outcome.PAUSED),
        (LeaveRequest.PREEMPT, Outcome.PREEMPTED),
        (LeaveRequest.STOP, Outcome.STOPPED),
    ],
)
def test_one_that_is_asked_to_leave_while_it_waits_never_begins(
    harness: Any, ask: LeaveRequest, outcome: Outcome
) -> None:
    harness.hold_the_queue(True)
    attempt = submit(harness, Work())
    harness.engine.request_leave(attempt, ask)
    harness.engine.request_leave(attempt, ask)
    harness.hold_the_queue(False)
    over = seen(harness, attempt)
    assert (over.state, over.outcome, over.started_at) == (ObservedState.ENDED, outcome, None)


def test_a_stop_counts_for_more_than_a_pause_before_it(harness: Any) -> None:
    harness.hold_the_queue(True)
    attempt = submit(harness, Work())
    harness.engine.request_leave(attempt, LeaveRequest.PAUSE)
    harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert seen(harness, attempt).outcome is Outcome.STOPPED


def test_submitting_again_makes_no_second_job(harness: Any) -> None:
    harness.hold_the_queue(True)
    launch = harness.launch(Work())
    request = harness.engine.render(launch)
    harness.engine.submit(request)
    first = seen(harness, launch.attempt_id).native
    harness.engine.submit(request)
    again = seen(harness, launch.attempt_id).native
    assert first is not None
    assert again is not None
    assert again.id == first.id
    harness.hold_the_queue(False)
    harness.engine.submit(request)
    assert harness.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    harness.engine.submit(request)
    assert seen(harness, launch.attempt_id).state is ObservedState.ENDED


def test_a_job_that_the_system_forgot_is_lost_not_absent(harness: Any) -> None:
    harness.hold_the_queue(True)
    attempt = submit(harness, Work())
    harness.forget(attempt)
    over = seen(harness, attempt)
    assert (over.state, over.outcome) == (ObservedState.ENDED, Outcome.LOST)
    assert over.cause is not None


def test_i11_the_turns_of_a_cycle_run_are_attempts_in_one_job(harness: Any) -> None:
    """The queue gives nodes to nobody meanwhile: the job has kept them."""
    first = started(harness, Work(lasts=True), nodes=2, turns=2)
    before = seen(harness, first)
    harness.hold_the_queue(True)
    harness.engine.request_leave(first, LeaveRequest.PREEMPT)
    assert harness.settle(first, ended).outcome is Outcome.PREEMPTED
    second = started(harness, Work(lasts=True), nodes=2, turns=1, number=2)
    now = seen(harness, second)
    assert before.native is not None
    assert now.native is not None
    assert (now.native.id, now.nodes) == (before.native.id, before.nodes)
    harness.engine.request_leave(second, LeaveRequest.PREEMPT)
    assert harness.settle(second, ended).outcome is Outcome.PREEMPTED
    third = submit(harness, Work(), number=3)
    assert seen(harness, third).state is ObservedState.SUBMITTED, "the job was for two turns"


def test_i11_a_cycle_run_that_was_paused_by_a_person_has_no_nodes_any_more(harness: Any) -> None:
    first = started(harness, Work(lasts=True), turns=3)
    harness.hold_the_queue(True)
    harness.engine.request_leave(first, LeaveRequest.PAUSE)
    assert harness.settle(first, ended).outcome is Outcome.PAUSED
    second = submit(harness, Work(), number=2, turns=3)
    assert seen(harness, second).state is ObservedState.SUBMITTED
    harness.hold_the_queue(False)
    assert harness.settle(second, ended).outcome is Outcome.COMPLETED


def test_a_turn_that_is_stopped_ends_its_job(harness: Any) -> None:
    """Also where the job runs an attempt that it was not submitted for."""
    first = started(harness, Work(lasts=True), turns=3)
    harness.engine.request_leave(first, LeaveRequest.PREEMPT)
    harness.settle(first, ended)
    second = started(harness, Work(lasts=True), number=2, turns=2)
    harness.engine.reap(second)
    assert harness.settle(second, ended).outcome is not Outcome.COMPLETED
    third = submit(harness, Work(), number=3, turns=1)
    assert harness.settle(third, ended).outcome is Outcome.COMPLETED


def test_a_turn_that_no_other_follows_gives_its_nodes_back_when_it_is_reaped(harness: Any) -> None:
    """A person stopped the run after its turn had ended: the job does not wait for another."""
    first = started(harness, Work(lasts=True), nodes=2, turns=3)
    harness.engine.request_leave(first, LeaveRequest.PREEMPT)
    assert harness.settle(first, ended).outcome is Outcome.PREEMPTED
    harness.engine.reap(first)
    harness.hold_the_queue(True)
    second = submit(harness, Work(), nodes=2, turns=2, number=2)
    assert seen(harness, second).state is ObservedState.SUBMITTED
