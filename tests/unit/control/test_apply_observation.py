"""What an observation means for a run: every row of the table in `control.apply_observation`."""

from __future__ import annotations

import pytest

from simulated import spec
from tarmac.control.decisions.apply_observation import apply_observation
from tarmac.control.decisions.counting import MAX_FAULTS
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import AttemptImage, Cause, CauseCode, Milestones, Outcome, WorkerPlacement
from tarmac.model.run import Allocation, Attempt, Run

S = RunState  # one letter: the table below is to be read as a table


def a_run(state: RunState, **fields: object) -> Run:
    wanted = spec(retries=fields.pop("retries", 0))
    return replace(
        Run(id="r1", spec=wanted, user="ada", state=state, seq=4, created_at=1.0, attempt=1, started_at=3.0),
        **fields,
    )


def an_attempt(state: AttemptState = AttemptState.RUNNING) -> Attempt:
    return Attempt(
        run_id="r1",
        number=1,
        state=state,
        engine="sim",
        allocation=Allocation(
            cluster="local", placements=(WorkerPlacement(role="main", replica=0, node="node1"),)
        ),
        token="t",
        master_port=20000,
        created_at=2.0,
        started_at=3.0 if state is not AttemptState.STARTING else None,
    )


def ended(outcome: Outcome, code: CauseCode = CauseCode.EXIT_CODE) -> Observation:
    cause = None if outcome is Outcome.COMPLETED else Cause(code=code, message="because")
    return Observation(state=ObservedState.ENDED, outcome=outcome, cause=cause, started_at=3.0, ended_at=9.0)


@pytest.mark.parametrize(
    ("state", "outcome", "event", "after", "run_outcome"),
    [
        (S.RUNNING, Outcome.COMPLETED, RunEvent.FINISHED, S.ENDED, Outcome.COMPLETED),
        (S.PAUSING, Outcome.COMPLETED, RunEvent.FINISHED, S.ENDED, Outcome.COMPLETED),
        (S.STOPPING, Outcome.COMPLETED, RunEvent.FINISHED, S.ENDED, Outcome.COMPLETED),
        (S.PREEMPTING, Outcome.COMPLETED, RunEvent.FINISHED, S.ENDED, Outcome.COMPLETED),
        (S.STOPPING, Outcome.PAUSED, RunEvent.FINISHED, S.ENDED, Outcome.STOPPED),
        (S.PAUSING, Outcome.PAUSED, RunEvent.ATTEMPT_PAUSED, S.PAUSED, None),
        (S.PREEMPTING, Outcome.PAUSED, RunEvent.VACATED, S.QUEUED, None),
        (S.PREEMPTING, Outcome.PREEMPTED, RunEvent.VACATED, S.QUEUED, None),
        (S.PAUSING, Outcome.PREEMPTED, RunEvent.ATTEMPT_PAUSED, S.PAUSED, None),
        (S.RUNNING, Outcome.PAUSED, RunEvent.FAULTED, S.QUEUED, None),
        (S.RUNNING, Outcome.PREEMPTED, RunEvent.VACATED, S.QUEUED, None),
        (S.STOPPING, Outcome.PREEMPTED, RunEvent.FINISHED, S.ENDED, Outcome.STOPPED),
        (S.RUNNING, Outcome.STOPPED, RunEvent.FINISHED, S.ENDED, Outcome.STOPPED),
        (S.RUNNING, Outcome.FAILED, RunEvent.FINISHED, S.ENDED, Outcome.FAILED),
        (S.STOPPING, Outcome.FAILED, RunEvent.FINISHED, S.ENDED, Outcome.FAILED),
        (S.PAUSING, Outcome.FAILED, RunEvent.FINISHED, S.ENDED, Outcome.FAILED),
        (S.STOPPING, Outcome.LOST, RunEvent.FINISHED, S.ENDED, Outcome.STOPPED),
        (S.PAUSING, Outcome.LOST, RunEvent.ATTEMPT_PAUSED, S.PAUSED, None),
        (S.RUNNING, Outcome.LOST, RunEvent.FAULTED, S.QUEUED, None),
        (S.PREEMPTING, Outcome.LOST, RunEvent.FAULTED, S.QUEUED, None),
    ],
)
def test_how_an_attempt_ended_decides_what_becomes_of_the_run(
    state: RunState, outcome: Outcome, event: RunEvent, after: RunState, run_outcome: Outcome | None
) -> None:
    step = apply_observation(a_run(state), an_attempt(), ended(outcome), now=10.0)
    assert step is not None
    assert step.events[-1].event is event
    assert (step.after.state, step.after.outcome) == (after, run_outcome)
    assert step.after.seq == step.before.seq + len(step.events)
    assert step.attempt is not None
    assert (step.attempt.state, step.attempt.outcome, step.attempt.ended_at) == (
        AttemptState.ENDED,
        outcome,
        9.0,
    )


def test_a_failure_with_a_retry_left_queues_again_and_spends_it() -> None:
    step = apply_observation(a_run(S.RUNNING, retries=1), an_attempt(), ended(Outcome.FAILED), now=10.0)
    assert step is not None
    assert (step.after.state, step.after.failures, step.after.queued_at) == (S.QUEUED, 1, 10.0)


def test_a_failure_while_pausing_with_a_retry_left_is_paused() -> None:
    step = apply_observation(a_run(S.PAUSING, retries=1), an_attempt(), ended(Outcome.FAILED), now=10.0)
    assert step is not None
    assert (step.after.state, step.after.failures) == (S.PAUSED, 1)


@pytest.mark.parametrize("cause", [CauseCode.TIME_LIMIT, CauseCode.UNSUPPORTED])
def test_what_another_try_would_only_meet_again_is_never_retried(cause: CauseCode) -> None:
    step = apply_observation(
        a_run(S.RUNNING, retries=3), an_attempt(), ended(Outcome.FAILED, cause), now=10.0
    )
    assert step is not None
    assert step.after.outcome is Outcome.FAILED


def test_a_fault_of_the_platform_spends_no_retry_and_is_bounded() -> None:
    first = apply_observation(
        a_run(S.RUNNING), an_attempt(), ended(Outcome.FAILED, CauseCode.PLATFORM_FAULT), now=10.0
    )
    assert first is not None
    assert (first.after.state, first.after.failures, first.after.faults) == (S.QUEUED, 0, 1)
    last = apply_observation(a_run(S.RUNNING, faults=MAX_FAULTS), an_attempt(), ended(Outcome.LOST), now=10.0)
    assert last is not None
    assert (last.after.state, last.after.outcome) == (S.ENDED, Outcome.FAILED)


def test_an_attempt_that_began_and_ended_between_two_looks_is_recorded_as_both() -> None:
    step = apply_observation(
        a_run(S.STARTING, started_at=None),
        an_attempt(AttemptState.STARTING),
        ended(Outcome.COMPLETED),
        now=10.0,
    )
    assert step is not None
    assert [item.event for item in step.events] == [RunEvent.STARTED, RunEvent.FINISHED]
    assert (step.after.started_at, step.after.ended_at) == (3.0, 9.0)


def test_no_attempt_ends_before_its_start() -> None:
    """The clock of its node, or its last sign of life, may say so: its loss would be nothing."""
    seen = replace(ended(Outcome.LOST, CauseCode.NODE_LOST), ended_at=2.5)
    step = apply_observation(a_run(S.RUNNING), an_attempt(), seen, now=10.0)
    assert step is not None
    assert step.attempt is not None
    assert step.attempt.ended_at == 3.0


def test_a_running_attempt_that_its_engine_does_not_know_is_lost() -> None:
    step = apply_observation(
        a_run(S.RUNNING), an_attempt(), Observation(state=ObservedState.ABSENT), now=10.0
    )
    assert step is not None
    assert step.attempt is not None
    assert step.attempt.outcome is Outcome.LOST


@pytest.mark.parametrize("state", [ObservedState.UNKNOWN, ObservedState.STARTING, ObservedState.ABSENT])
def test_nothing_is_decided_on_what_is_not_known(state: ObservedState) -> None:
    run, attempt = a_run(S.STARTING), an_attempt(AttemptState.STARTING)
    assert apply_observation(run, attempt, Observation(state=state), now=10.0) is None


def test_m6_how_far_a_pull_is_is_known_while_the_run_starts() -> None:
    """`tarmac why` says it; no event for each piece that came."""
    run, attempt = a_run(S.STARTING), an_attempt(AttemptState.STARTING)
    image = AttemptImage(source="registry.example.org", fetched_bytes=1, total_bytes=9)
    seen = Observation(state=ObservedState.STARTING, milestones=Milestones(image=image))
    step = apply_observation(run, attempt, seen, 5.0)
    assert step is not None
    assert (step.after, step.events) == (run, ())
    assert step.attempt is not None
    assert step.attempt.milestones.image == image
    assert step.attempt.state is AttemptState.STARTING
    assert apply_observation(run, step.attempt, seen, 6.0) is None
