"""What an attempt is, from what its nodes say: every mixture of their endings."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.engines.attempts.aggregate_outcome import NodeFacts, PartState, lost, observation
from tarmac.model.codec import replace
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import Cause, CauseCode, Milestones, Outcome

FAULT = Cause(code=CauseCode.PLATFORM_FAULT, message="the runner on n1 died", node="n1")


def facts(node: str, state: PartState, **known: Any) -> NodeFacts:
    return NodeFacts(node=node, state=state, **known)


def ended(node: str, outcome: Outcome, *, at: float = 9.0, **told: Any) -> NodeFacts:
    event = {"outcome": outcome, **told}
    return facts(node, PartState.ENDED, started_at=1.0, ended_at=at, ended=event)


def failed(node: str, *, at: float, code: CauseCode = CauseCode.EXIT_CODE) -> NodeFacts:
    cause = {"code": code.value, "message": f"a worker on {node}", "node": node}
    return ended(node, Outcome.FAILED, at=at, cause=cause)


def lost_node(node: str, *, at: float) -> NodeFacts:
    return facts(node, PartState.ENDED, started_at=1.0, ended_at=at, ended=lost(FAULT))


def test_running_means_that_all_nodes_run() -> None:
    first = facts("n1", PartState.RUNNING, started_at=5.0)
    waiting = facts("n2", PartState.CLAIMED)
    seen = observation([first, waiting], None)
    assert (seen.state, seen.started_at) == (ObservedState.STARTING, None)
    seen = observation([first, facts("n2", PartState.RUNNING, started_at=7.0)], None)
    assert (seen.state, seen.started_at) == (ObservedState.RUNNING, 7.0)


def test_ended_means_that_all_nodes_have() -> None:
    running = facts("n2", PartState.RUNNING, started_at=2.0)
    assert observation([ended("n1", Outcome.COMPLETED), running], None).state is ObservedState.RUNNING
    both = observation([ended("n1", Outcome.COMPLETED, at=8.0), ended("n2", Outcome.COMPLETED)], None)
    assert (both.state, both.outcome, both.ended_at) == (ObservedState.ENDED, Outcome.COMPLETED, 9.0)


@pytest.mark.parametrize("outcome", [Outcome.STOPPED, Outcome.PREEMPTED, Outcome.PAUSED])
def test_leaving_as_asked_counts_over_having_completed(outcome: Outcome) -> None:
    assert observation([ended("n1", Outcome.COMPLETED), ended("n2", outcome)], None).outcome is outcome


def test_the_word_of_one_node_that_all_is_finished_settles_it() -> None:
    word = ended("n1", Outcome.COMPLETED, finished=True)
    assert observation([word, ended("n2", Outcome.PAUSED)], LeaveRequest.PAUSE).outcome is Outcome.COMPLETED


def test_a_failure_on_one_node_is_the_attempts() -> None:
    seen = observation([ended("n1", Outcome.COMPLETED), failed("n2", at=3.0)], None)
    assert seen.outcome is Outcome.FAILED
    assert seen.cause is not None
    assert seen.cause.node == "n2"


def test_what_fails_after_a_node_was_lost_is_a_consequence() -> None:
    seen = observation([failed("n2", at=5.0), lost_node("n1", at=4.0)], None)
    assert (seen.outcome, seen.cause) == (Outcome.LOST, FAULT)


def test_what_failed_before_a_node_was_lost_is_the_runs_own_doing() -> None:
    seen = observation([failed("n2", at=3.0), lost_node("n1", at=4.0)], None)
    assert seen.outcome is Outcome.FAILED


def test_work_ends_with_the_last_worker_unless_the_runner_was_lost() -> None:
    both = [
        replace(failed("n1", at=9.0), milestones=Milestones(over_at=5.0)),
        replace(failed("n2", at=8.0), milestones=Milestones(over_at=6.0)),
    ]
    assert observation(both, None).milestones.over_at == 6.0
    assert observation([*both, lost_node("n3", at=4.0)], None).milestones.over_at is None
    assert (
        observation([*both, facts("n3", PartState.RUNNING, started_at=1.0)], None).milestones.over_at is None
    )


def test_a_failure_that_a_lost_node_told_its_peer_is_a_loss() -> None:
    """As after a restart of the server: the lost node's claim is fenced, the peer repeats the fault."""
    peer = failed("n2", at=5.0, code=CauseCode.PLATFORM_FAULT)
    assert observation([facts("n1", PartState.FENCED, ended_at=4.0), peer], None).outcome is Outcome.LOST


def test_what_never_started_was_stopped_or_cleared_away() -> None:
    fenced = facts("n1", PartState.FENCED, ended_at=2.0)
    stopped = observation([fenced], LeaveRequest.STOP)
    assert (stopped.outcome, stopped.started_at) == (Outcome.STOPPED, None)
    assert observation([fenced], None).outcome is Outcome.LOST
    assert observation([], LeaveRequest.STOP).outcome is Outcome.STOPPED


def test_a_stop_that_caught_some_nodes_before_their_start_is_a_stop() -> None:
    fenced = facts("n1", PartState.FENCED, ended_at=2.0)
    assert observation([fenced, ended("n2", Outcome.STOPPED)], LeaveRequest.STOP).outcome is Outcome.STOPPED


def test_what_any_node_saw_was_seen_of_the_attempt() -> None:
    """I11: the first output of all, the newest checkpoint, the first reading; of a lost attempt too."""
    seen = [
        Milestones(first_output_at=5.0, checkpoint_at=20.0),
        Milestones(first_output_at=4.0, read_at=8.0),
        Milestones(checkpoint_at=30.0, read_at=7.0),
        Milestones(),
    ]
    whole = Milestones(first_output_at=4.0, checkpoint_at=30.0, read_at=7.0)
    running = [
        facts(f"n{rank}", PartState.RUNNING, started_at=1.0, milestones=each)
        for rank, each in enumerate(seen)
    ]
    assert observation(running, None).milestones == whole
    gone = [replace(lost_node(item.node, at=9.0), milestones=item.milestones) for item in running]
    assert observation(gone, None).milestones == whole
    assert observation([facts("n1", PartState.RUNNING, started_at=1.0)], None).milestones == Milestones()
