"""What an observation of an attempt means for its run: the heart of reconciling, as one pure function.

    the attempt ended as   the run was asked to      the run
    --------------------   -----------------------   ------------------------------------------------
    completed              anything                  ends completed
    paused, preempted      stop                      ends stopped
                           pause                     is paused
                           give way (preempting)     queues again
                           nothing                   queues again (counted as a fault of the platform)
    stopped                anything                  ends stopped
    failed                 stop                      ends failed
                           pause                     is paused, if a retry is left; else ends failed
                           otherwise                 queues again, if a retry is left; else ends failed
    lost                   stop                      ends stopped
                           pause                     is paused
                           otherwise                 queues again, MAX_FAULTS times; then ends failed

Called by the reconcile pass.
"""

from __future__ import annotations

from dataclasses import replace

from tarmac.control.steps import ending_detail, started
from tarmac.model.changes import RunStep, StepEvent
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState, step
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.run import PLATFORM_FAULTS, Attempt, Cause, CauseCode, Outcome, Run

MAX_FAULTS = 3
"""How many attempts the platform may lose before a run is given up."""

_LEAVES = {
    RunState.PAUSING: RunEvent.ATTEMPT_PAUSED,
    RunState.PREEMPTING: RunEvent.VACATED,
}
_VANISHED = Cause(code=CauseCode.PLATFORM_FAULT, message="the attempt vanished from its engine")
_NO_RETRY = frozenset({CauseCode.TIME_LIMIT})


def settle(run: Run, attempt: Attempt, observation: Observation, now: float) -> RunStep | None:
    """The step that `observation` calls for, or None when there is nothing to record."""
    if observation.state is ObservedState.RUNNING:
        if run.state is RunState.STARTING and attempt.state is AttemptState.STARTING:
            return started(run, attempt, observation.started_at or now)
        return None
    if observation.state is ObservedState.ABSENT and attempt.state is AttemptState.RUNNING:
        observation = Observation(state=ObservedState.ENDED, outcome=Outcome.LOST, cause=_VANISHED)
    if observation.state is ObservedState.ENDED:
        return _ended(run, attempt, observation, now)
    return None


def _ended(run: Run, attempt: Attempt, observation: Observation, now: float) -> RunStep:
    outcome = observation.outcome or Outcome.LOST
    if observation.cause is not None and observation.cause.code in PLATFORM_FAULTS:
        outcome = Outcome.LOST
    events: list[StepEvent] = []
    current = run
    began = attempt.started_at or observation.started_at
    if run.state is RunState.STARTING and observation.started_at is not None:
        first = started(run, attempt, observation.started_at)
        events += first.events
        current = first.after
    over = replace(
        attempt,
        state=AttemptState.ENDED,
        started_at=began,
        ended_at=observation.ended_at or now,
        outcome=outcome,
        cause=observation.cause,
    )
    current = _counted(current, outcome)
    event, run_outcome = _verdict(current, outcome, observation.cause)
    detail = {"attempt": attempt.number} | ending_detail(outcome, observation.cause)
    events.append(StepEvent(event=event, at=now, detail=detail))
    after = replace(current, state=step(current.state, event), seq=run.seq + len(events))
    if run_outcome is not None:
        after = replace(after, outcome=run_outcome, cause=observation.cause, ended_at=over.ended_at)
    elif after.state is RunState.QUEUED:
        after = replace(after, queued_at=now)
    return RunStep(before=run, after=after, events=tuple(events), attempt=over)


def _counted(run: Run, outcome: Outcome) -> Run:
    """Failures, faults and preemptions are counted apart: only failures spend the user's retries."""
    if outcome is Outcome.FAILED:
        return replace(run, failures=run.failures + 1)
    if outcome is Outcome.LOST:
        return replace(run, faults=run.faults + 1)
    if outcome is Outcome.PREEMPTED:
        return replace(run, preemptions=run.preemptions + 1)
    return run


def _verdict(run: Run, outcome: Outcome, cause: Cause | None) -> tuple[RunEvent, Outcome | None]:
    """The event, and the outcome of the run if it ends; see the table above."""
    if outcome in (Outcome.COMPLETED, Outcome.STOPPED):
        return RunEvent.FINISHED, outcome
    if outcome is Outcome.FAILED:
        retry = run.failures <= run.spec.retries and not (cause and cause.code in _NO_RETRY)
        if run.state is RunState.STOPPING or not retry:
            return RunEvent.FINISHED, Outcome.FAILED
        return (_LEAVES[run.state] if run.state is RunState.PAUSING else RunEvent.RETRIED), None
    if run.state is RunState.STOPPING:
        return RunEvent.FINISHED, Outcome.STOPPED
    if outcome is not Outcome.LOST and run.state in _LEAVES:
        return _LEAVES[run.state], None
    if run.state is RunState.PAUSING:
        return RunEvent.ATTEMPT_PAUSED, None
    if run.faults > MAX_FAULTS:
        return RunEvent.FINISHED, Outcome.FAILED
    return RunEvent.FAULTED, None
