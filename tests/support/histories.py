"""Runs, attempts and steps for tests, with everything said that a test does not care about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.model.changes import NewRun, RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import INITIAL_STATE, AttemptState, RunEvent, RunState, steps
from tarmac.model.progress import Outcome, StepEvent, WorkerPlacement
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.model.spec import Command, Process, Role, RunSpec

HELLO = (Role(processes=(Process(command=Command(argv=("echo", "hello"))),)),)


def spec(**fields: Any) -> RunSpec:
    """A spec of one role, with these fields."""
    return RunSpec(**{"name": "hello", "roles": HELLO, **fields})


def new_run(
    run_id: str = "r1",
    *,
    user: str = "ada",
    key: str | None = None,
    at: float = 100.0,
    events: tuple[RunEvent, ...] = (RunEvent.STAGED,),
    **fields: Any,
) -> NewRun:
    """A run to accept: queued, unless `events` say otherwise. The other fields are those of its spec."""
    state = steps(INITIAL_STATE, events)
    run = Run(
        id=run_id,
        spec=spec(**fields),
        user=user,
        state=state,
        seq=1 + len(events),
        created_at=at,
        queued_at=at if state is RunState.QUEUED else None,
        idempotency_key=key,
    )
    return NewRun(run=run, events=events)


def attempt_of(run: Run, number: int = 1, *, node: str = "node-1", **fields: Any) -> Attempt:
    """An attempt of `run` on one node, starting."""
    placement = WorkerPlacement(role="main", replica=0, node=node, slots=(0,))
    plain = Attempt(
        run_id=run.id,
        number=number,
        state=AttemptState.STARTING,
        engine="local",
        allocation=Allocation(cluster="local", placements=(placement,)),
        token=f"token-{number}",
        master_port=29000,
        created_at=100.0,
    )
    return replace(plain, **fields)


def step(
    before: Run,
    *events: RunEvent,
    at: float = 101.0,
    detail: Mapping[str, Any] | None = None,
    attempt: Attempt | None = None,
    **fields: Any,
) -> RunStep:
    """The step of `before` by `events`; the other fields are those of the run that change with it."""
    state = steps(before.state, events)
    if state is RunState.ENDED:
        fields = {"ended_at": at, "outcome": Outcome.STOPPED, **fields}
    if attempt is not None:
        fields = {"attempt": attempt.number, **fields}
    return RunStep(
        before=before,
        after=replace(before, state=state, seq=before.seq + len(events), **fields),
        events=tuple(StepEvent(event=event, at=at, detail=detail or {}) for event in events),
        attempt=attempt,
    )


def placed(before: Run, number: int = 1) -> RunStep:
    """The step that starts an attempt of a queued run."""
    return step(before, RunEvent.PLACED, attempt=attempt_of(before, number))


def ended(run: Run, slot_s: float, *, at: float = 36_005.0, pool: str = "p") -> RunStep:
    """The end of an attempt that used so much, in that pool at that time."""
    placement = WorkerPlacement(role="main", replica=0, node="node-1", slots=(0,))
    attempt = attempt_of(
        run,
        number=max(run.attempt, 1),
        state=AttemptState.ENDED,
        allocation=Allocation(cluster="local", pool=pool, placements=(placement,)),
        ended_at=at,
        outcome=Outcome.LOST,
    )
    return step(run, RunEvent.FAULTED, attempt=attempt, attained_slot_s=run.attained_slot_s + slot_s)
