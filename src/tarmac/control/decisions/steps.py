"""Decisions about one run as data: from a run and an event, the `RunStep` to commit.

Pure: used by the commands and the passes. Each raises IllegalStep if the lifecycle has no such step.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tarmac.control.decisions.counting import released_slot_s
from tarmac.control.decisions.idleness import IDLE
from tarmac.model.actor import Actor
from tarmac.model.changes import RunStep
from tarmac.model.codec import decode, encode, replace
from tarmac.model.lifecycle import AttemptState, LeaveRequest, Mode, RunEvent, RunState, step
from tarmac.model.ports import StagedCode
from tarmac.model.progress import Cause, CauseCode, Milestones, NativeStatus, Outcome, Share, StepEvent
from tarmac.model.run import Allocation, Attempt, QueuePosition, Release, Run
from tarmac.sched import Placement, Preemption, PreemptionReason

ASKS = {
    RunState.PAUSING: LeaveRequest.PAUSE,
    RunState.PREEMPTING: LeaveRequest.PREEMPT,
    RunState.STOPPING: LeaveRequest.STOP,
}
"""The leave request for the attempt of a run in each of these states."""

_STOPPED_BY_USER = Cause(code=CauseCode.USER_REQUEST, message="stopped by request")


def staged(run: Run, code: StagedCode, now: float) -> RunStep:
    """The code store has its code: the run queues, or is paused at once if it was submitted so."""
    detail = {"code": code.digest} | ({"commit": code.commit} if code.commit is not None else {})
    digest, commit = code.digest, code.commit
    queued = _step(run, RunEvent.STAGED, now, detail, code_digest=digest, code_commit=commit, queued_at=now)
    if not run.spec.start_paused:
        return queued
    aside = pause_run(queued.after, None, now)
    return RunStep(before=run, after=aside.after, events=queued.events + aside.events)


def placed(
    run: Run,
    placement: Placement,
    *,
    engine: str,
    token: str,
    port: int | None,
    now: float,
    home: str | None = None,
) -> RunStep:
    """Begin the next attempt of a run on an allocation.

    On a cluster with its own queue the attempt waits there first; its nodes determine its port. A place in
    the queue that a person gave a cycle run is valid for one turn.
    """
    number, allocation = run.attempt + 1, placement.allocation
    waits = allocation.delegated
    event = RunEvent.SUBMITTED if waits else RunEvent.PLACED
    attempt = Attempt(
        run_id=run.id,
        number=number,
        state=AttemptState.SUBMITTED if waits else AttemptState.STARTING,
        engine=engine,
        allocation=allocation,
        token=token,
        master_port=port,
        created_at=now,
        allotted_s=placement.allotted_s,
        home=home,
    )
    position = run.queue_position
    if run.spec.mode is Mode.CYCLE and position is not None:
        position = replace(position, position=None)
    detail = {
        "attempt": number,
        "cluster": allocation.cluster,
        "pool": allocation.pool,
        "nodes": len(allocation.nodes) if waits else list(allocation.nodes),
        "slots": allocation.slots,
    }
    if placement.allotted_s is not None:
        detail["allotted_s"] = placement.allotted_s
    return _step(run, event, now, detail, attempt, attempt=number, queue_position=position)


def granted_nodes(
    run: Run, attempt: Attempt, nodes: Sequence[str], at: float, *, native: NativeStatus | None, now: float
) -> RunStep:
    """The cluster has given its attempt nodes at `at`, in the order of ranks if the cluster reported it.

    There is no event after a request to leave: the leaving is the event.
    """
    allocation = attempt.allocation
    if len(nodes) == len(allocation.nodes):
        allocation = renamed(allocation, nodes)
    at, native = max(at, attempt.created_at), native or attempt.native
    attempt = replace(
        attempt, state=AttemptState.STARTING, allocation=allocation, granted_at=at, native=native
    )
    if run.state is not RunState.SUBMITTED:
        return noted(run, attempt)
    detail = {"attempt": attempt.number, "nodes": list(allocation.nodes)}
    return _step(run, RunEvent.GRANTED, now, detail, attempt)


def renamed(allocation: Allocation, nodes: Sequence[str]) -> Allocation:
    """The allocation with other names of its nodes, in their order."""
    names = dict(zip(allocation.nodes, nodes, strict=True))
    placements = tuple(replace(each, node=names[each.node]) for each in allocation.placements)
    return replace(allocation, placements=placements)


def stop_run(run: Run, attempt: Attempt | None, now: float, *, at_once: bool = False) -> RunStep:
    """A user stops the run: at once if nothing runs, otherwise when its attempt has left.

    `at_once` gives the attempt no grace, even if the run is already stopping.
    """
    if at_once and run.state is RunState.STOPPING:
        return noted(run, replace(attempt, leave_request=LeaveRequest.STOP_NOW) if attempt else None)
    event, detail = RunEvent.STOP_REQUESTED, {"outcome": Outcome.STOPPED}
    if step(run.state, event) is RunState.ENDED:
        cause = _STOPPED_BY_USER
        return _step(run, event, now, detail, outcome=Outcome.STOPPED, cause=cause, ended_at=now)
    asking = _asking(run, attempt, event, now)
    if at_once and asking.attempt is not None:
        return replace(asking, attempt=replace(asking.attempt, leave_request=LeaveRequest.STOP_NOW))
    return asking


def stop_for(run: Run, attempt: Attempt, cause: Cause, now: float) -> RunStep:
    """The platform stops the run for good, with its grace; the run has the cause until it ends, and then."""
    asking = _asking(run, attempt, RunEvent.STOP_REQUESTED, now)
    detail = {"code": cause.code.value, "message": cause.message}
    events = tuple(replace(each, detail={**each.detail, **detail}) for each in asking.events)
    return replace(asking, after=replace(asking.after, cause=cause), events=events)


def pause_run(run: Run, attempt: Attempt | None, now: float) -> RunStep:
    """A user pauses the run: at once if nothing runs, otherwise when its attempt has left."""
    return _asking(run, attempt, RunEvent.PAUSE_REQUESTED, now)


def pause_idle_run(run: Run, attempt: Attempt, idle_s: float, now: float) -> RunStep:
    """The rules of its pool pause a run that uses none of its slots."""
    return _asking(run, attempt, RunEvent.PAUSE_REQUESTED, now, reason=IDLE, idle_s=round(idle_s))


def resume_run(run: Run, now: float) -> RunStep:
    """A paused run queues again; a pausing one queues when it has left."""
    queues = step(run.state, RunEvent.RESUME_REQUESTED) is RunState.QUEUED
    return _step(run, RunEvent.RESUME_REQUESTED, now, {}, queued_at=now if queues else run.queued_at)


def preempt_run(run: Run, attempt: Attempt, preemption: Preemption, now: float) -> RunStep:
    """The scheduler takes the run's slots. The length of an ended turn is its actual one, not the allotted
    one.
    """
    attempt = replace(attempt, leave_request=LeaveRequest.PREEMPT, leave_requested_at=now)
    if preemption.reason is PreemptionReason.TURN_OVER:
        lasted_s = now - (attempt.started_at or attempt.created_at)
        attempt = replace(attempt, allotted_s=min(lasted_s, attempt.allotted_s or lasted_s))
    detail = {"reason": preemption.reason.value}
    if preemption.for_run_id is not None:
        detail["for"] = preemption.for_run_id
    return _step(run, RunEvent.PREEMPT_REQUESTED, now, detail, attempt)


def granted(run: Run, share: Share) -> RunStep:
    """The run gets a share of the period that has begun. No event, as the state of the run does not change.

    Numbers are stored as floats: the guard of the next step compares the stored values.
    """
    return RunStep(before=run, after=replace(run, share=decode(Share, encode(share))), events=())


def reordered(run: Run, position: QueuePosition, detail: Mapping[str, Any], now: float) -> RunStep:
    """A person gave the run another place in the queue."""
    return _step(run, RunEvent.REORDERED, now, detail, queue_position=position)


def noted(run: Run, attempt: Attempt | None) -> RunStep:
    """News of its attempt alone. No event, as the state of the run does not change."""
    return RunStep(before=run, after=run, events=(), attempt=attempt)


def started(run: Run, attempt: Attempt, at: float, milestones: Milestones, now: float) -> RunStep:
    """Every worker of its attempt runs, since `at`; `milestones` are those observed by now.

    The attempt records the time by a node's clock, the history the time at which the server learnt of it.
    """
    attempt = replace(attempt, state=AttemptState.RUNNING, started_at=at, milestones=milestones)
    detail, first_at = {"attempt": attempt.number}, run.started_at or at
    return _step(run, RunEvent.STARTED, now, detail, attempt, started_at=first_at)


def released(run: Run, attempt: Attempt, releases: Sequence[Release], now: float) -> RunStep:
    """Some replicas of its attempt have ended while others run: their slots are free."""
    used_slot_s = run.attained_slot_s + released_slot_s(attempt, releases)
    freed = replace(attempt, released=(*attempt.released, *releases))
    detail = {
        "attempt": attempt.number,
        "replicas": [f"{each.role}.{each.replica}" for each in releases],
        "slots": attempt.current_allocation.slots - freed.current_allocation.slots,
    }
    return _step(run, RunEvent.RELEASED, now, detail, freed, attained_slot_s=used_slot_s)


def session_opened(run: Run, detail: Mapping[str, Any], now: float) -> RunStep:
    """A person begins a session beside one of its workers."""
    return _step(run, RunEvent.SESSION_OPENED, now, detail)


def finished(run: Run, outcome: Outcome, cause: Cause | None, now: float) -> RunStep:
    """The run ends without an attempt: it was refused, or its code could not be staged."""
    detail = ending_detail(outcome, cause)
    return _step(run, RunEvent.FINISHED, now, detail, outcome=outcome, cause=cause, ended_at=now)


def caused_by(actor: Actor, step: RunStep) -> RunStep:
    """The same step, attributed to a command of an actor."""
    return replace(step, events=tuple(replace(event, actor=actor.user) for event in step.events))


def ending_detail(outcome: Outcome, cause: Cause | None) -> dict[str, Any]:
    """The record of an end in the history."""
    reason = {"code": cause.code.value, "message": cause.message} if cause else {}
    return {"outcome": outcome.value} | reason


def _asking(run: Run, attempt: Attempt | None, event: RunEvent, now: float, **detail: Any) -> RunStep:
    ask = ASKS.get(step(run.state, event))
    if ask is None or attempt is None:
        return _step(run, event, now, detail)
    attempt = replace(attempt, leave_request=ask, leave_requested_at=now)
    return _step(run, event, now, {"attempt": attempt.number, **detail}, attempt)


def _step(
    run: Run,
    event: RunEvent,
    at: float,
    detail: Mapping[str, Any],
    changed: Attempt | None = None,
    **changes: Any,
) -> RunStep:
    """The step of one event: the changed attempt, and the changed fields of the run beside its state."""
    after = replace(run, state=step(run.state, event), seq=run.seq + 1, **changes)
    event_made = StepEvent(event=event, at=at, detail=detail)
    return RunStep(before=run, after=after, events=(event_made,), attempt=changed)
