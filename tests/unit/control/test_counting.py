"""What the end of an attempt adds to its run: turns, times, usage, shares, milestones; each counted apart."""

from __future__ import annotations

import pytest

from simulated import spec
from tarmac.control.decisions import steps
from tarmac.control.decisions.apply_observation import CHECKPOINT_STEP_S, apply_observation
from tarmac.control.state.facts import candidate_of, holding_of
from tarmac.model.changes import RunStep, usage_of
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, LeaveRequest, Mode, RunState
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Cause, CauseCode, Milestones, Outcome, SavedWork, Share, WorkerPlacement
from tarmac.model.run import Allocation, Attempt, QueuePosition, Run
from tarmac.sched import Placement, Preemption, PreemptionReason

UNSEEN = Milestones()
KEPT = Milestones(checkpoint_at=60.0, kept=SavedWork(61.0))
BOTH = Milestones(first_output_at=14.0, checkpoint_at=20.0, read_at=13.0, kept=SavedWork(21.0))
"""All that can be seen of an attempt that started at 12."""


def a_run(state: RunState = RunState.RUNNING, **fields: object) -> Run:
    wanted = {name: fields.pop(name) for name in ("mode", "retries", "time_limit_s") if name in fields}
    return replace(
        Run(
            id="r1",
            spec=spec(slots=2, max_rapid_cycles=2, **wanted),
            user="ada",
            state=state,
            seq=4,
            created_at=1.0,
            attempt=1,
            started_at=12.0,
        ),
        **fields,
    )


def an_attempt(**fields: object) -> Attempt:
    """One that held two slots from 10 on and runs since 12."""
    placement = WorkerPlacement(role="main", replica=0, node="node1", slots=(0, 1))
    plain = Attempt(
        run_id="r1",
        number=1,
        state=AttemptState.RUNNING,
        engine="sim",
        allocation=Allocation(cluster="local", pool="p", placements=(placement,)),
        token="t",
        master_port=20000,
        created_at=10.0,
        started_at=12.0,
    )
    return replace(plain, **fields)


def left(
    outcome: Outcome, at: float = 110.0, milestones: Milestones = UNSEEN, **cause: object
) -> Observation:
    code = cause.get("code", CauseCode.EXIT_CODE)
    why = None if outcome is Outcome.COMPLETED else Cause(code=code, message="because")
    return Observation(
        state=ObservedState.ENDED,
        outcome=outcome,
        cause=why,
        started_at=12.0,
        ended_at=at,
        milestones=milestones,
    )


def end(run: Run, attempt: Attempt, observation: Observation) -> RunStep:
    step = apply_observation(run, attempt, observation, now=111.0)
    assert step is not None
    return step


def turn_over(run: Run, milestones: Milestones = UNSEEN, **fields: object) -> RunStep:
    """The end of a turn: asked at 102 to leave, gone at 110."""
    attempt = an_attempt(allotted_s=90.0, number=run.attempt)
    preemption = Preemption(run_id="r1", seq=run.seq, reason=PreemptionReason.TURN_OVER)
    asked = steps.preempt_run(run, attempt, preemption, 102.0)
    assert asked.attempt is not None
    return end(asked.after, replace(asked.attempt, **fields), left(Outcome.PREEMPTED, milestones=milestones))


# --- turns (I11) --------------------------------------------------------------------------------------


def test_a_turn_that_is_over_is_a_turn_and_no_preemption() -> None:
    step = turn_over(a_run(mode=Mode.CYCLE))
    after = step.after
    assert (after.state, after.turns, after.preemptions, after.queued_at) == (RunState.QUEUED, 1, 0, 111.0)


def test_i11_the_scheduler_is_told_how_many_turns_are_left() -> None:
    """One that leaves because its turn is over comes back to its line; one that is paused does not."""
    first = a_run(mode=Mode.CYCLE)
    assert candidate_of(first).turns_left == 2
    assert candidate_of(turn_over(first).after).turns_left == 1
    leaving = {
        state: holding_of(replace(first, state=state), an_attempt()).requeues
        for state in (RunState.RUNNING, RunState.PREEMPTING, RunState.PAUSING, RunState.STOPPING)
    }
    assert [state for state, requeues in leaving.items() if requeues] == [RunState.PREEMPTING]


def test_after_its_last_turn_a_cycle_run_is_completed_with_its_cycle_report() -> None:
    first = turn_over(
        a_run(mode=Mode.CYCLE), Milestones(first_output_at=17.0, checkpoint_at=60.0, kept=SavedWork(61.0))
    )
    again = replace(first.after, state=RunState.RUNNING, attempt=2)
    last = turn_over(again, BOTH).after
    assert (last.state, last.outcome, last.turns, last.cause) == (RunState.ENDED, Outcome.COMPLETED, 2, None)
    assert last.cycle_report is not None
    assert last.cycle_report.proven
    assert (last.cycle_report.turns, last.cycle_report.first_output_s) == (2, 2.0), (
        "the shortest time to output"
    )


@pytest.mark.parametrize(
    ("first", "second", "missing"),
    [
        (Milestones(), Milestones(), "no checkpoint was left"),
        (KEPT, Milestones(), "the next turn did not read it"),
        (
            Milestones(checkpoint_at=60.0),
            Milestones(read_at=13.0),
            "a checkpoint was left, but none was kept",
        ),
        (Milestones(), KEPT, "no turn followed that could read the checkpoint"),
        (
            BOTH,
            Milestones(),
            "the next turn did not read it",
        ),  # what the first turn read was an input artifact
        (Milestones(), BOTH, "no turn followed that could read the checkpoint"),
    ],
)
def test_what_a_cycle_run_has_not_shown_is_said(first: Milestones, second: Milestones, missing: str) -> None:
    half = turn_over(a_run(mode=Mode.CYCLE), first).after
    last = turn_over(replace(half, state=RunState.RUNNING, attempt=2), second).after
    assert last.outcome is Outcome.COMPLETED
    assert last.cause is not None
    assert last.cause.code is CauseCode.UNPROVEN
    assert last.cause.message == f"completed, pause and resume unproven: {missing}"


def test_a_checkpoint_that_was_kept_and_turned_out_torn_is_kept_no_more() -> None:
    """Its last turn left a version that holds nothing: the next would start at 0."""
    emptied = replace(BOTH, kept=SavedWork(0.0))
    first = turn_over(a_run(mode=Mode.CYCLE), KEPT).after
    last = turn_over(replace(first, state=RunState.RUNNING, attempt=2), emptied).after
    assert last.cause is not None
    assert last.cause.message.endswith("a checkpoint was left, but none was kept")


def test_one_that_ends_by_itself_in_its_first_turn_has_shown_no_resuming() -> None:
    step = end(a_run(mode=Mode.CYCLE), an_attempt(), left(Outcome.COMPLETED, milestones=BOTH))
    assert (step.after.outcome, step.after.turns) == (Outcome.COMPLETED, 1)
    early = end(
        a_run(mode=Mode.CYCLE), an_attempt(), left(Outcome.COMPLETED, milestones=replace(BOTH, read_at=None))
    )
    assert early.after.cause is not None
    assert early.after.cause.message.endswith("no turn followed that could read the checkpoint")


def test_i11_one_turn_cannot_prove_that_a_run_resumes() -> None:
    run = a_run(mode=Mode.CYCLE)
    single = replace(run, spec=replace(run.spec, max_rapid_cycles=1))
    cause = turn_over(single, KEPT).after.cause
    assert cause is not None
    assert cause.message.endswith("with max_rapid_cycles 1 no turn follows that could read the checkpoint")


def test_an_error_in_a_turn_ends_a_cycle_run_whatever_its_retries() -> None:
    step = end(a_run(mode=Mode.CYCLE, retries=3), an_attempt(), left(Outcome.FAILED))
    assert (step.after.outcome, step.after.turns, step.after.failures) == (Outcome.FAILED, 1, 1)
    assert step.after.cause == left(Outcome.FAILED).cause


@pytest.mark.parametrize("outcome", [Outcome.LOST, Outcome.PAUSED])
def test_a_turn_that_was_cut_short_is_none(outcome: Outcome) -> None:
    state = RunState.PAUSING if outcome is Outcome.PAUSED else RunState.RUNNING
    asked = LeaveRequest.PAUSE if outcome is Outcome.PAUSED else None
    attempt = an_attempt(allotted_s=90.0, leave_request=asked, leave_requested_at=50.0 if asked else None)
    assert end(a_run(state, mode=Mode.CYCLE), attempt, left(outcome)).after.turns == 0


def test_a_run_preempted_before_its_time_is_preempted_and_has_had_no_turn() -> None:
    run, attempt = a_run(mode=Mode.CYCLE), an_attempt(allotted_s=90.0)
    moved = Preemption(run_id="r1", seq=run.seq, reason=PreemptionReason.POOL_CHANGED)
    asked = steps.preempt_run(run, attempt, moved, 50.0)
    assert asked.attempt is not None
    after = end(asked.after, asked.attempt, left(Outcome.PREEMPTED)).after
    assert (after.turns, after.preemptions) == (0, 1)


def test_the_place_of_a_cycle_run_is_that_of_one_turn() -> None:
    run = a_run(
        RunState.QUEUED, mode=Mode.CYCLE, queue_position=QueuePosition(priority=0, weight=1.0, position=5.0)
    )
    placement = Placement(run_id="r1", seq=4, allocation=an_attempt().allocation, allotted_s=90.0)
    step = steps.placed(run, placement, engine="sim", token="t", port=1, now=20.0)
    assert step.after.place.position is None
    assert step.attempt is not None
    assert step.attempt.allotted_s == 90.0
    batch = a_run(RunState.QUEUED, queue_position=QueuePosition(priority=0, weight=1.0, position=5.0))
    kept = steps.placed(batch, placement, engine="sim", token="t", port=1, now=20.0)
    assert kept.after.place.position == 5.0


# --- time and usage -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "state", "ran_s"),
    [
        (Outcome.PREEMPTED, RunState.PREEMPTING, 105.0),
        (Outcome.PAUSED, RunState.PAUSING, 105.0),
        (Outcome.LOST, RunState.RUNNING, 105.0),
        (Outcome.FAILED, RunState.RUNNING, 0.0),  # a retry starts its limit afresh
        (Outcome.FAILED, RunState.PAUSING, 0.0),
    ],
)
def test_the_time_limit_counts_the_running_time_of_what_goes_on(
    outcome: Outcome, state: RunState, ran_s: float
) -> None:
    """C6: started at 12, gone at 110, after 7 s of earlier attempts."""
    run = a_run(state, retries=1, ran_s=7.0, time_limit_s=500.0)
    step = end(run, an_attempt(), left(outcome))
    assert step.after.ran_s == ran_s
    assert step.after.state is not RunState.ENDED


def test_usage_is_what_the_slots_were_held_for() -> None:
    step = end(a_run(attained_slot_s=3.0), an_attempt(), left(Outcome.COMPLETED))
    assert step.after.attained_slot_s == 3.0 + 2 * 100.0
    used = usage_of(step)
    assert used is not None
    assert (used.cluster, used.pool, used.user, used.slot_s) == ("local", "p", "ada", 200.0)
    assert used.hour_at == 0.0


def test_the_share_of_a_period_is_used_from_its_beginning_until_the_ask() -> None:
    """I12: not what was held in the period before, nor the time to leave."""
    share = Share(period_at=40.0, allotted_s=50.0, rank=0, used_s=5.0)
    run = a_run(RunState.PREEMPTING, mode=Mode.INTERRUPTIBLE, share=share)
    step = end(
        run, an_attempt(leave_request=LeaveRequest.PREEMPT, leave_requested_at=90.0), left(Outcome.PREEMPTED)
    )
    assert step.after.share == replace(share, used_s=5.0 + 50.0)
    alone = end(replace(run, state=RunState.RUNNING), an_attempt(), left(Outcome.COMPLETED))
    assert alone.after.share == replace(share, used_s=5.0 + 70.0)


# --- milestones -----------------------------------------------------------------------------------------


def seen(**fields: float) -> Observation:
    return Observation(state=ObservedState.RUNNING, started_at=12.0, milestones=Milestones(**fields))


def test_milestones_are_recorded_as_they_are_seen_without_an_event() -> None:
    """I11: also of an attempt that still runs, and not more often than it changes."""
    run, attempt = a_run(), an_attempt()
    step = apply_observation(run, attempt, seen(first_output_at=13.0), 20.0)
    assert step is not None
    assert (step.events, step.after) == ((), run)
    assert step.attempt is not None
    assert apply_observation(run, step.attempt, seen(first_output_at=13.0), 30.0) is None
    assert apply_observation(run, step.attempt, seen(), 30.0) is None, "what was seen once stays seen"
    whole = apply_observation(run, step.attempt, seen(first_output_at=13.0, checkpoint_at=30.0), 31.0)
    assert whole is not None
    assert whole.attempt is not None
    newer = 30.0 + CHECKPOINT_STEP_S
    assert (
        apply_observation(run, whole.attempt, seen(first_output_at=13.0, checkpoint_at=newer - 1.0), newer)
        is None
    )
    assert (
        apply_observation(run, whole.attempt, seen(first_output_at=13.0, checkpoint_at=newer), newer)
        is not None
    )


def test_the_last_checkpoint_is_recorded_with_the_end() -> None:
    attempt = an_attempt(milestones=Milestones(first_output_at=13.0, checkpoint_at=30.0))
    step = end(a_run(), attempt, left(Outcome.LOST, milestones=Milestones(checkpoint_at=33.0)))
    assert step.attempt is not None
    assert step.attempt.milestones == Milestones(first_output_at=13.0, checkpoint_at=33.0)
