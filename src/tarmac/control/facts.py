"""Records to the scheduler's facts: runs to candidates and holdings. Pure; used by `mirror` and `world`."""

from __future__ import annotations

from tarmac.model.lifecycle import RunState
from tarmac.model.resources import Resources
from tarmac.model.run import Attempt, Run
from tarmac.model.spec import Role
from tarmac.sched import Candidate, Demand, Holding

LEAVING_STATES = frozenset({RunState.PAUSING, RunState.PREEMPTING, RunState.STOPPING})


def candidate_of(run: Run) -> Candidate:
    """The run as the scheduler sees it."""
    spec = run.spec
    return Candidate(
        run_id=run.id,
        seq=run.seq,
        demands=tuple(_demand(role) for role in spec.roles),
        target=spec.target,
        mode=spec.mode,
        queueing=spec.queueing,
        priority=spec.priority,
        weight=1.0,
        position=None,
        submitted_at=run.created_at,
        queued_at=run.queued_at if run.queued_at is not None else run.created_at,
        owner=run.user,
        project=spec.project,
        attempts=run.attempt,
        attained_slot_s=0.0,
        time_limit_s=spec.time_limit_s,
    )


def holding_of(run: Run, attempt: Attempt) -> Holding:
    """What a run with a live attempt occupies."""
    return Holding(
        candidate=candidate_of(run),
        allocation=attempt.allocation,
        granted_at=attempt.created_at,
        started_at=attempt.started_at,
        checkpoint_at=None,
        leaving=run.state in LEAVING_STATES,
    )


def _demand(role: Role) -> Demand:
    if role.slots is not None:
        per_slot = role.replica_resources
        each = Resources(slot_type=role.slot_type, cpus=per_slot.cpus, memory_bytes=per_slot.memory_bytes)
        return Demand(role=role.name, replicas=None, slots=role.slots, each=each)
    each = role.replica_resources
    return Demand(role=role.name, replicas=role.replicas, slots=None, each=each)
