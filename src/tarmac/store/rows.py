"""Records to rows of the tables and back. Used by `sql` alone.

The order of the columns read here is that of the SELECTs in `statements`. JSON is written as pure ASCII,
so that any text a user can type (or a worker can print) fits every database.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from tarmac.model.changes import NewRun, RunStep, UsageBucket, first_actor, usage_of
from tarmac.model.cluster import Cluster
from tarmac.model.codec import decode, encode
from tarmac.model.dataset import Dataset
from tarmac.model.lifecycle import INITIAL_EVENT, INITIAL_STATE, AttemptState, RunEvent, RunState
from tarmac.model.lifecycle import step as next_state
from tarmac.model.run import (
    NOTHING_SEEN,
    Allocation,
    Attempt,
    Cause,
    CauseCode,
    CycleReport,
    Event,
    LeaveRequest,
    Milestones,
    NativeStatus,
    Outcome,
    QueuePosition,
    Release,
    Retry,
    Run,
    Share,
)
from tarmac.model.serving import HomeIdentity, Lease, ServerRecord
from tarmac.model.spec import Mode, RunSpec
from tarmac.model.summary import RunSummary, max_turns_of, slot_type_of
from tarmac.store.checks import guard_states, target_pool
from tarmac.store.statements import GUARD_STATES

T = TypeVar("T")


Values = dict[str, Any]
"""What one execution of a statement is given."""

_STATES = {str(state): state for state in RunState}
_OUTCOMES: dict[str | None, Outcome | None] = {None: None, **{str(outcome): outcome for outcome in Outcome}}
_CAUSES: dict[str | None, CauseCode | None] = {None: None, **{str(code): code for code in CauseCode}}
_MODES = {str(mode): mode for mode in Mode}
_MOST_SPECS = 4096  # specs are frozen, and lists are read again and again

# --- to rows ----------------------------------------------------------------------------------------


def of_new_run(run: Run) -> Values:
    """The whole row of a run that is accepted."""
    spec = run.spec
    return {
        "id": run.id,
        "name": spec.name,
        "project": spec.project,
        "user_name": run.user,
        "dialect": spec.dialect,
        "mode": spec.mode.value,
        "slots": spec.slots,
        "cluster": spec.target.cluster,
        "pool": target_pool(run),
        "created_at": run.created_at,
        "idempotency_key": run.idempotency_key,
        "slot_type": slot_type_of(spec),
        "system": spec.conventions.system,
        "image": spec.environment.image,
        "max_turns": max_turns_of(spec),
        "server": run.server,
        **_progress(run),
    }


def of_spec(run: Run) -> Values:
    """The row of `run_spec`."""
    return {"run_id": run.id, "body": _written(run.spec)}


def of_labels(run: Run) -> list[Values]:
    """The rows of `run_label`."""
    return [{"run_id": run.id, "key": key, "value": value} for key, value in run.spec.labels.items()]


def of_first_events(new: NewRun) -> Iterator[Values]:
    """The rows of `event` of a run that is accepted."""
    run, state = new.run, INITIAL_STATE
    yield _event(run.id, 1, at=run.created_at, kind=INITIAL_EVENT, state=state, detail={}, actor=run.user)
    for seq, kind in enumerate(new.events, start=2):
        state = next_state(state, kind)
        actor = first_actor(new, kind)
        yield _event(run.id, seq, at=run.created_at, kind=kind, state=state, detail={}, actor=actor)


def of_step(step: RunStep) -> Values:
    """What the guarded update of a run is given."""
    before, after, attempt = step.before, step.after, step.attempt
    values = _progress(after)
    values["new_cluster"] = attempt.allocation.cluster if attempt is not None else None
    values["new_pool"] = attempt.allocation.pool if attempt is not None else after.place.pool
    values["guard_id"] = before.id
    values["guard_seq"] = before.seq
    values["guard_share"] = _body(before.share)
    values.update(_guard(guard_states(step)))
    return values


def of_step_events(step: RunStep) -> Iterator[Values]:
    """The rows of `event` of a step."""
    before, state = step.before, step.before.state
    for seq, item in enumerate(step.events, start=before.seq + 1):
        state = next_state(state, item.event)
        yield _event(
            before.id, seq, at=item.at, kind=item.event, state=state, detail=item.detail, actor=item.actor
        )


def of_attempt(attempt: Attempt) -> Values:
    """The whole row of an attempt."""
    return {
        "run_id": attempt.run_id,
        "number": attempt.number,
        "state": attempt.state.value,
        "engine": attempt.engine,
        "cluster": attempt.allocation.cluster,
        "allocation": _written(attempt.allocation),
        "token": attempt.token,
        "master_port": attempt.master_port,
        "created_at": attempt.created_at,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "leave_request": _word(attempt.leave_request),
        "leave_requested_at": attempt.leave_requested_at,
        "outcome": _word(attempt.outcome),
        "cause": _body(attempt.cause),
        "allotted_s": attempt.allotted_s,
        "milestones": _written(attempt.milestones) if attempt.milestones != NOTHING_SEEN else None,
        "home": attempt.home,
        "released": _written(attempt.released) if attempt.released else None,
        "granted_at": attempt.granted_at,
        "native": _body(attempt.native),
    }


def of_usage(steps: Sequence[RunStep]) -> list[Values]:
    """The rows of `usage` that these steps add to, one for each."""
    rows: dict[tuple[Any, ...], Values] = {}
    for bucket in (usage_of(step) for step in steps):
        if bucket is None:
            continue
        values = {
            "hour_at": bucket.hour_at,
            "cluster": _legible(bucket.cluster),
            "pool": _legible(bucket.pool),
            "user_name": bucket.user,
            "project": bucket.project,
        }
        row = rows.setdefault(tuple(values.values()), values | {"slot_s": 0.0})
        row["slot_s"] += bucket.slot_s
    return list(rows.values())


def of_cluster(cluster: Cluster) -> Values:
    """The row of `cluster`."""
    return {"name": cluster.name, "body": _written(cluster)}


def _progress(run: Run) -> Values:
    """The columns that steps change."""
    cause = run.cause
    return {
        "seq": run.seq,
        "state": run.state.value,
        "outcome": _word(run.outcome),
        "attempt": run.attempt,
        "queued_at": run.queued_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "message": _legible(cause.message) if cause is not None else None,
        "cause_code": cause.code.value if cause is not None else None,
        "cause": _body(cause),
        "code_digest": run.code_digest,
        "code_commit": run.code_commit,
        "failures": run.failures,
        "faults": run.faults,
        "preemptions": run.preemptions,
        "priority": run.place.priority,
        "turns": run.turns,
        "attained_slot_s": run.attained_slot_s,
        "ran_s": run.ran_s,
        "queue_position": _body(run.queue_position),
        "share": _body(run.share),
        "cycle_report": _body(run.cycle_report),
        "retry": _body(run.retry),
    }


def _event(
    run_id: str,
    seq: int,
    *,
    at: float,
    kind: RunEvent,
    state: RunState,
    detail: Mapping[str, Any],
    actor: str | None,
) -> Values:
    return {
        "run_id": run_id,
        "seq": seq,
        "at": at,
        "event": kind.value,
        "state": state.value,
        "detail": _written(detail) if detail else None,
        "actor": actor,
    }


@lru_cache
def _guard(states: frozenset[RunState]) -> Values:
    """The parameters of the guard: as many as it has room for, the last state repeated."""
    words = sorted(state.value for state in states)
    return {f"guard_state_{index}": words[min(index, len(words) - 1)] for index in range(GUARD_STATES)}


def _word(value: StrEnum | None) -> str | None:
    """The plain text of an enum's value: drivers have their own ideas of what an enum is."""
    return value.value if value is not None else None


def _body(record: object | None) -> str | None:
    """A record that may not be there."""
    return _written(record) if record is not None else None


def _written(value: Any) -> str:
    return json.dumps(encode(value), separators=(",", ":"))


def _legible(text: str) -> str:
    """The text less what some database cannot hold: NUL, and halves of characters. `cause` keeps it all."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


# --- from rows --------------------------------------------------------------------------------------


def to_run(row: Sequence[Any]) -> Run:
    """A run, from the columns of `statements._RUNS`."""
    return Run(
        id=row[0],
        spec=_spec(row[1]),
        user=row[2],
        state=_STATES[row[3]],
        seq=row[4],
        created_at=row[5],
        queued_at=row[6],
        started_at=row[7],
        ended_at=row[8],
        attempt=row[9],
        outcome=_OUTCOMES[row[10]],
        cause=_record(Cause, row[11]),
        code_digest=row[12],
        failures=row[13],
        faults=row[14],
        preemptions=row[15],
        idempotency_key=row[16],
        turns=row[17],
        attained_slot_s=row[18],
        ran_s=row[19],
        queue_position=_record(QueuePosition, row[20]),
        share=_record(Share, row[21]),
        cycle_report=_record(CycleReport, row[22]),
        code_commit=row[23],
        server=row[24],
        retry=_record(Retry, row[25]),
    )


def to_summary(row: Sequence[Any]) -> RunSummary:
    """One line of a list, from the columns of `statements._SUMMARIES`."""
    words = (_STATES[row[5]], _OUTCOMES[row[6]], _MODES[row[7]])
    return RunSummary._make((*row[:5], *words, *row[8:17], _CAUSES[row[17]], *row[18:]))


def to_attempt(row: Sequence[Any]) -> Attempt:
    """An attempt, from the columns of `statements._ATTEMPTS`."""
    return Attempt(
        run_id=row[0],
        number=row[1],
        state=AttemptState(row[2]),
        engine=row[3],
        allocation=decode(Allocation, json.loads(row[4])),
        token=row[5],
        master_port=row[6],
        created_at=row[7],
        started_at=row[8],
        ended_at=row[9],
        leave_request=LeaveRequest(row[10]) if row[10] is not None else None,
        leave_requested_at=row[11],
        outcome=_OUTCOMES[row[12]],
        cause=_record(Cause, row[13]),
        allotted_s=row[14],
        milestones=_record(Milestones, row[15]) or NOTHING_SEEN,
        home=row[16],
        released=decode(tuple[Release, ...], json.loads(row[17])) if row[17] is not None else (),
        granted_at=row[18],
        native=_record(NativeStatus, row[19]),
    )


def to_event(row: Sequence[Any]) -> Event:
    """One step of a history, from the columns of `statements._EVENTS`."""
    return Event(
        id=row[0],
        run_id=row[1],
        seq=row[2],
        at=row[3],
        event=RunEvent(row[4]),
        state=_STATES[row[5]],
        detail=json.loads(row[6]) if row[6] is not None else {},
        actor=row[7],
    )


def to_usage(row: Sequence[Any]) -> UsageBucket:
    """What was used in an hour, from the columns of `statements.USAGE`."""
    return UsageBucket(
        hour_at=row[0], cluster=row[1], pool=row[2], user=row[3], project=row[4], slot_s=row[5]
    )


def of_server(lease: Lease, home: HomeIdentity, now: float) -> Values:
    """The row of `server`."""
    return {
        "cluster": lease.cluster,
        "home": home.id,
        "machine": home.machine,
        "hostname": _legible(home.hostname),
        "path": _legible(home.path),
        "token": lease.token,
        "seen_at": now,
    }


def to_server(row: Sequence[Any]) -> ServerRecord:
    """Which home serves a cluster, from the columns of `statements.SERVERS`."""
    home = HomeIdentity(id=row[1], machine=row[2], hostname=row[3], path=row[4])
    return ServerRecord(cluster=row[0], home=home, token=row[5], seen_at=row[6])


def to_cluster(body: str) -> Cluster:
    """A cluster as it was described."""
    return decode(Cluster, json.loads(body))


def of_dataset(dataset: Dataset) -> Values:
    """The row of `dataset`."""
    return {"id": dataset.id, "body": _written(dataset)}


def to_dataset(body: str) -> Dataset:
    """The record of a dataset."""
    return decode(Dataset, json.loads(body))


@lru_cache(maxsize=_MOST_SPECS)
def _spec(body: str) -> RunSpec:
    return decode(RunSpec, json.loads(body))


def _record(kind: type[T], body: str | None) -> T | None:
    return decode(kind, json.loads(body)) if body is not None else None
