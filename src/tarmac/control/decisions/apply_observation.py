"""Maps an observation of an attempt to a step of its run: the core of reconciling, as one pure function.

    the attempt ended as   the run was asked to      the run
    --------------------   -----------------------   ------------------------------------------------
    completed              anything                  ends completed
    paused, preempted      stop                      ends stopped
                           pause                     is paused
                           be preempted              queues again; a cycle run whose last turn is over
                                                     ends completed
    preempted              nothing (its cluster      queues again at once; ends failed after a number
                           did it)                   of jobs in a row that ended at their wall time
                                                     without progress (`_is_futile`)
    paused                 nothing                   queues again (counted as a fault of the platform)
    stopped                anything                  ends stopped
    failed                 stop                      ends failed
                           pause                     is paused, if it may be retried; else ends failed
                           otherwise                 queues again, if it may be retried; else ends failed
    lost                   stop                      ends stopped
                           pause                     is paused
                           otherwise                 queues again, MAX_FAULTS times; then ends failed

A cycle run is not retried: its purpose is to find errors in its turns. `counting` decides on
retries and updates the counts. Called by the reconcile pass.
"""

from typing import Any

from tarmac.control.decisions import counting, steps
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState, step
from tarmac.model.loss import lost
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import PLATFORM_FAULTS, CauseCode, Milestones, Outcome, StepEvent, merge_milestones
from tarmac.model.run import Attempt, Release, Retry, Run
from tarmac.systems.registry import dialect_of

CHECKPOINT_STEP_S = 10.0
"""A newer checkpoint of a running attempt is recorded if it is newer by this much."""

EXPECTED_STEP_S = 60.0
"""A cluster queue's new estimate of an attempt's start is recorded if it differs by this much."""

_LEAVES = {RunState.PAUSING: RunEvent.ATTEMPT_PAUSED, RunState.PREEMPTING: RunEvent.VACATED}


def apply_observation(run: Run, attempt: Attempt, observation: Observation, now: float) -> RunStep | None:
    """The step that `observation` requires, or None if there is nothing to record."""
    if observation.state is ObservedState.SUBMITTED:
        return _waiting(run, attempt, observation)
    if observation.state in (ObservedState.STARTING, ObservedState.RUNNING):
        return _going_on(run, attempt, observation, now)
    seen = attempt.state is AttemptState.RUNNING or attempt.native is not None
    if observation.state is ObservedState.ABSENT and seen:  # what the engine reported it cannot retract
        observation = lost("the attempt vanished from its engine")
    if observation.state is ObservedState.ENDED:
        if observation.cause is not None:
            explain = dialect_of(run.spec.conventions.system).explain
            observation = replace(observation, cause=explain(observation.cause))
        return _ended(run, attempt, observation, now)
    return None


def _waiting(run: Run, attempt: Attempt, observation: Observation) -> RunStep | None:
    """The attempt waits in the cluster's own queue: record its new status there."""
    native, known = observation.native, attempt.native
    if native is None or native == known or attempt.state is not AttemptState.SUBMITTED:
        return None
    if known is not None and replace(native, expected_start_at=known.expected_start_at) == known:
        moved_s = abs((native.expected_start_at or 0.0) - (known.expected_start_at or 0.0))
        if moved_s < EXPECTED_STEP_S:
            return None
    return steps.noted(run, replace(attempt, native=native))


def _granted(run: Run, attempt: Attempt, observation: Observation, now: float) -> RunStep | None:
    """The cluster has given the attempt nodes since the last observation."""
    if attempt.state is not AttemptState.SUBMITTED:
        return None
    at = observation.granted_at or observation.started_at or now
    return steps.granted_nodes(run, attempt, observation.nodes, at, native=observation.native, now=now)


def _going_on(run: Run, attempt: Attempt, observation: Observation, now: float) -> RunStep | None:
    """Record the progress of an attempt with nodes: its start, milestones and ended replicas."""
    granted = _granted(run, attempt, observation, now)
    if granted is not None:
        return _joined(granted, _going_on(granted.after, granted.attempt or attempt, observation, now))
    first = _seen(run, attempt, observation, now)
    releases = _releases(attempt, observation)
    if not releases:
        return first
    if first is None:
        return steps.released(run, attempt, releases, now)
    return _joined(first, steps.released(first.after, first.attempt or attempt, releases, now))


def _joined(first: RunStep, then: RunStep | None) -> RunStep:
    """Two successive steps as one."""
    if then is None:
        return first
    return RunStep(
        before=first.before,
        after=then.after,
        events=first.events + then.events,
        attempt=then.attempt or first.attempt,
    )


def _releases(attempt: Attempt, observation: Observation) -> list[Release]:
    """The newly ended replicas; none if no slots would remain held, because the attempt is ending."""
    placed = {(placement.role, placement.replica) for placement in attempt.current_allocation.placements}
    fresh = [
        replace(each, at=max(each.at, attempt.created_at))
        for each in observation.released
        if (each.role, each.replica) in placed
    ]
    return fresh if len(fresh) < len(placed) else []


def _seen(run: Run, attempt: Attempt, observation: Observation, now: float) -> RunStep | None:
    """Record a start or new milestones; for a starting attempt, the progress of its image pull."""
    milestones = merge_milestones(attempt.milestones, observation.milestones)
    running = observation.state is ObservedState.RUNNING
    if running and run.state is RunState.STARTING and attempt.state is AttemptState.STARTING:
        return steps.started(run, attempt, observation.started_at or now, milestones, now)
    if not _worth_noting(attempt.milestones, milestones):
        return None
    return steps.noted(run, replace(attempt, milestones=milestones))


def _worth_noting(known: Milestones, seen: Milestones) -> bool:
    if known == seen:
        return False
    if known.checkpoint_at is None or seen.checkpoint_at is None:
        return True
    if (known.kept is None) != (seen.kept is None):
        return True
    newer = {name: getattr(seen, name) for name in ("checkpoint_at", "checkpoint_step", "kept")}
    only_newer = replace(known, **newer) == seen
    return not only_newer or seen.checkpoint_at >= known.checkpoint_at + CHECKPOINT_STEP_S


def _ended(run: Run, attempt: Attempt, observation: Observation, now: float) -> RunStep:
    started_at, first = observation.started_at, None
    if observation.granted_at is not None or started_at is not None:
        first = _granted(run, attempt, observation, now)
    if first is None and run.state is RunState.STARTING and started_at is not None:
        first = steps.started(run, attempt, started_at, attempt.milestones, now)
    if first is not None:
        return _joined(first, _ended(first.after, first.attempt or attempt, observation, now))
    outcome = observation.outcome or Outcome.LOST
    if observation.cause is not None and observation.cause.code in PLATFORM_FAULTS:
        outcome = Outcome.LOST
    started_at = attempt.started_at or started_at
    over = replace(
        attempt,
        state=AttemptState.ENDED,
        started_at=started_at,
        ended_at=max(observation.ended_at or now, started_at or 0.0, attempt.created_at),
        outcome=outcome,
        cause=observation.cause,
        milestones=merge_milestones(attempt.milestones, observation.milestones),
    )
    if over.cause is not None and (text := counting.matched_text(over)):
        over = replace(over, cause=replace(over.cause, message=over.cause.message + text))
    event, run_outcome = _run_event(run, over)
    report = counting.cycle_report_of(run, over)
    detail = {"attempt": attempt.number} | steps.ending_detail(outcome, over.cause)
    if run_outcome is not None and run_outcome is not outcome:
        detail["run_outcome"] = run_outcome.value
    state = step(run.state, event)
    changes: dict[str, Any] = {"state": state, "seq": run.seq + 1, "cycle_report": report}
    if run_outcome is not None:
        cause = counting.unproven(run, report) if run_outcome is Outcome.COMPLETED else over.cause
        if run_outcome is Outcome.STOPPED and run.cause is not None:
            cause = run.cause  # why the platform stopped it
        if cause is not None and run_outcome is Outcome.FAILED:
            text = counting.last_try_text(run, over) + _futile_text(run, over)
            cause = replace(cause, message=cause.message + text)
        changes |= {"outcome": run_outcome, "cause": cause, "ended_at": over.ended_at}
    elif state is RunState.QUEUED:
        changes["queued_at"] = now
    failed = outcome in (Outcome.FAILED, Outcome.LOST) or event is RunEvent.FAULTED
    again = failed and run_outcome is None
    changes["retry"] = (counting.next_try if again else _next_start)(run, over, now)
    retried = outcome is Outcome.FAILED and run_outcome is None
    changes["excluded_nodes"] = counting.excluded_after(run, over)
    after = counting.counted(run, over, retried=retried, **changes)
    events = (StepEvent(event=event, at=now, detail=detail),)
    return RunStep(before=run, after=after, events=events, attempt=over)


def _run_event(run: Run, attempt: Attempt) -> tuple[RunEvent, Outcome | None]:
    """The event, and the outcome of the run if it ends; see the table above."""
    outcome = attempt.outcome
    if outcome in (Outcome.COMPLETED, Outcome.STOPPED):
        return RunEvent.FINISHED, outcome
    if outcome is Outcome.FAILED:
        if run.state is RunState.STOPPING or not counting.may_retry(run, attempt):
            return RunEvent.FINISHED, Outcome.FAILED
        return (_LEAVES[run.state] if run.state is RunState.PAUSING else RunEvent.RETRIED), None
    if run.state is RunState.STOPPING:
        return RunEvent.FINISHED, Outcome.STOPPED
    if outcome is not Outcome.LOST and run.state in _LEAVES:
        last = counting.turn_is_over(run, attempt) and run.turns + 1 >= run.spec.max_rapid_cycles
        return (RunEvent.FINISHED, Outcome.COMPLETED) if last else (_LEAVES[run.state], None)
    if run.state is RunState.PAUSING:
        return RunEvent.ATTEMPT_PAUSED, None
    if outcome is Outcome.PREEMPTED:
        return (RunEvent.FINISHED, Outcome.FAILED) if _is_futile(run, attempt) else (RunEvent.VACATED, None)
    if run.faults + (outcome is Outcome.LOST) > counting.MAX_FAULTS:
        return RunEvent.FINISHED, Outcome.FAILED
    return RunEvent.FAULTED, None


MAX_FUTILE = 3
"""The number of jobs in a row that may end at their wall time without progress."""

_END = CauseCode.WALL_TIME.value


def _is_futile(run: Run, attempt: Attempt) -> bool:
    """Whether the run gets no other job after its just ended attempt.

    A job that ended at its wall time uses up no retry. A run without checkpoints would begin at 0 each time,
    and one that never passes its last step would never end.
    """
    retry = _next_start(run, attempt, 0.0)
    return retry is not None and retry.tries >= MAX_FUTILE


def _next_start(run: Run, attempt: Attempt, now: float) -> Retry | None:
    """The retry record after a job that ended at its wall time: the next job may begin at once.

    Progress is a checkpoint, and, if steps are known, one of a later step than before.
    """
    if attempt.cause is None or attempt.cause.code is not CauseCode.WALL_TIME:
        return None
    tries, known = _before(run)
    step = attempt.milestones.checkpoint_step
    leads_on = attempt.milestones.checkpoint_at is not None and (
        known is None or step is None or step > known
    )
    best = max((each for each in (step, known) if each is not None), default=None)
    return Retry(at=now, tries=0 if leads_on else tries + 1, end=_END, step=best)


def _futile_text(run: Run, attempt: Attempt) -> str:
    """The addition to the cause of a run that gets no other job for this reason."""
    if not _is_futile(run, attempt):
        return ""
    tries, step = _before(run)
    if attempt.milestones.checkpoint_at is None:
        return (
            f"; {tries + 1} jobs in a row ended so and no checkpoint was kept: nothing was whole in "
            "$CHECKPOINT_ARTIFACT_PATH, and no other job sees what it saved elsewhere, as in its working "
            "directory. It is not submitted again"
        )
    return f"; {tries + 1} jobs in a row ended so and none got beyond step {step}: it is not submitted again"


def _before(run: Run) -> tuple[int, int | None]:
    """The jobs in a row before this one that ended at their wall time without progress, and their step."""
    retry = run.retry
    return (retry.tries, retry.step) if retry is not None and retry.end == _END else (0, None)
