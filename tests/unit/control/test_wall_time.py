"""A run whose jobs end at their wall time gets the next, as long as each brings it further."""

from __future__ import annotations

import pytest

from simulated import spec
from tarmac.control.decisions.apply_observation import MAX_FUTILE, apply_observation
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Cause, CauseCode, Milestones, Outcome
from tarmac.model.run import Allocation, Attempt, Run

LEFT = Cause(code=CauseCode.WALL_TIME, message="left before the end of its job's wall time")


def a_run(**fields: object) -> Run:
    running = Run(id="r1", spec=spec(), user="ada", state=RunState.RUNNING, seq=4, created_at=1.0, attempt=1)
    return replace(running, **fields)


def job_ends(run: Run, *, checkpoint: bool, step: int | None = None, cause: Cause = LEFT) -> RunStep:
    """The step at the end of the run's next job, which ran for an hour and left a checkpoint or none."""
    attempt = Attempt(
        run_id="r1",
        number=run.attempt,
        state=AttemptState.RUNNING,
        engine="slurm",
        allocation=Allocation(cluster="site", placements=(), delegated=True),
        token="t",
        master_port=None,
        created_at=100.0,
        started_at=100.0,
        milestones=Milestones(checkpoint_at=3000.0 if checkpoint else None, checkpoint_step=step),
    )
    seen = Observation(
        state=ObservedState.ENDED, outcome=Outcome.PREEMPTED, cause=cause, started_at=100.0, ended_at=3700.0
    )
    found = apply_observation(run, attempt, seen, 3700.0)
    assert found is not None
    return found


def again(step: RunStep) -> Run:
    """The run once its next attempt runs."""
    assert step.after.state is RunState.QUEUED
    return replace(step.after, state=RunState.RUNNING, attempt=step.after.attempt + 1)


def test_it_queues_again_at_once_and_spends_neither_a_retry_nor_a_fault() -> None:
    step = job_ends(a_run(), checkpoint=True)
    assert [event.event for event in step.events] == [RunEvent.VACATED]
    after = step.after
    assert (after.state, after.failures, after.faults) == (RunState.QUEUED, 0, 0)
    assert after.retry is not None
    assert after.retry.at == 3700.0, "no pause before the next job"


def test_its_own_time_limit_counts_the_time_in_all_its_jobs() -> None:
    run = a_run()
    for _ in range(4):
        run = again(job_ends(run, checkpoint=True))
    assert run.ran_s == 4 * 3600.0


def test_one_that_keeps_checkpoints_goes_on_for_as_long_as_it_needs() -> None:
    run = a_run()
    for number in range(50):
        run = again(job_ends(run, checkpoint=True, step=number))
    assert run.attempt == 51


@pytest.mark.parametrize(
    ("checkpoint", "step", "said"),
    [
        (
            False,
            None,
            f"{MAX_FUTILE} jobs in a row ended so and no checkpoint was kept: nothing was whole in $",
        ),
        (True, 7, f"{MAX_FUTILE} jobs in a row ended so and none got beyond step 7"),
    ],
)
def test_one_that_gets_no_further_is_given_up_and_says_why(
    checkpoint: bool, step: int | None, said: str
) -> None:
    run = again(job_ends(a_run(), checkpoint=True, step=7))
    for _ in range(MAX_FUTILE - 1):
        run = again(job_ends(run, checkpoint=checkpoint, step=step))
    last = job_ends(run, checkpoint=checkpoint, step=step).after
    assert (last.state, last.outcome) == (RunState.ENDED, Outcome.FAILED)
    assert last.cause is not None
    assert last.cause.code is CauseCode.WALL_TIME
    assert said in last.cause.message


def test_a_job_that_got_further_begins_the_count_anew() -> None:
    run = a_run()
    for number in range(10):
        run = again(job_ends(run, checkpoint=number % MAX_FUTILE == 0))
    assert run.attempt == 11


def test_what_slurm_preempts_is_never_given_up() -> None:
    cause = Cause(code=CauseCode.PREEMPTION, message="job 7 was preempted by Slurm for another job")
    run = a_run()
    for _ in range(10):
        run = again(job_ends(run, checkpoint=False, cause=cause))
    assert (run.preemptions, run.faults, run.retry) == (10, 0, None)


def test_one_that_a_person_pauses_meanwhile_is_paused() -> None:
    run = a_run(state=RunState.PAUSING)
    assert job_ends(run, checkpoint=False).after.state is RunState.PAUSED
