"""Records to rows of the tables and back. Used by `sql` alone.

The columns read here are those of the SELECTs in `statements`. JSON is written as pure ASCII, so that any
text a user can type (or a worker can print) fits every database.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache, partial
from operator import attrgetter
from sys import intern
from typing import Any, TypeVar

from tarmac.model import lifecycle, progress
from tarmac.model.actor import HomeIdentity, Lease, ServerRecord
from tarmac.model.array import AwaitedRun
from tarmac.model.changes import NewRun, RunStep, UsageBucket, first_actor, usage_of
from tarmac.model.codec import decode, encode
from tarmac.model.lifecycle import step as next_state
from tarmac.model.run import Allocation, Attempt, QueuePosition, Release, Retry, Run
from tarmac.model.spec import RunSpec
from tarmac.model.summary import RunSummary, max_turns_of, slot_type_of
from tarmac.store.checks import guard_states, target_pool
from tarmac.store.statements import ATTEMPT_FIELDS, EVENT_FIELDS, GUARD_STATES, RUN_FIELDS

T = TypeVar("T")


Values = dict[str, Any]
"""The parameters of one execution of a statement."""

_STATES = {str(state): state for state in lifecycle.RunState}
_OUTCOMES: dict[str | None, progress.Outcome | None] = {
    None: None,
    **{str(outcome): outcome for outcome in progress.Outcome},
}
_CAUSES: dict[str | None, progress.CauseCode | None] = {
    None: None,
    **{str(code): code for code in progress.CauseCode},
}
_MODES = {str(mode): mode for mode in lifecycle.Mode}
_EVENTS = {str(kind): kind for kind in lifecycle.RunEvent}
_OF_PROGRESS = (
    *("seq", "attempt", "queued_at", "started_at", "ended_at", "code_digest", "code_commit"),
    *("failures", "faults", "preemptions", "turns", "attained_slot_s", "ran_s"),
)
_OF_ATTEMPT = (
    *("run_id", "number", "engine", "token", "master_port", "created_at", "started_at", "ended_at"),
    *("leave_requested_at", "allotted_s", "home", "granted_at"),
)
"""Fields that are written unchanged."""

_progress_values, _attempt_values = attrgetter(*_OF_PROGRESS), attrgetter(*_OF_ATTEMPT)
_MOST_SPECS = 4096  # specs are frozen, and lists are read again and again

# --- to rows ----------------------------------------------------------------------------------------


def of_new_run(run: Run) -> Values:
    """The whole row of an accepted run."""
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
        "array_id": run.array_id,
        "array_index": run.array_index,
        **_progress(run),
    }


def of_specs(runs: Iterable[Run]) -> Iterator[Values]:
    """The rows of `run_spec`; the members of an array share one encoded text."""
    spec: RunSpec | None = None
    body = ""
    for run in runs:
        if run.spec is not spec:
            spec, body = run.spec, written(run.spec)
        yield {"run_id": run.id, "body": body}


def of_labels(run_id: str, labels: Mapping[str, str]) -> list[Values]:
    """The rows of `run_label`."""
    return [{"run_id": run_id, "key": key, "value": value} for key, value in labels.items()]


def of_first_events(new: NewRun) -> Iterator[Values]:
    """The rows of `event` of an accepted run."""
    run, state = new.run, lifecycle.INITIAL_STATE
    yield _event(
        run.id, 1, at=run.created_at, kind=lifecycle.INITIAL_EVENT, state=state, detail={}, actor=run.user
    )
    for seq, kind in enumerate(new.events, start=2):
        state = next_state(state, kind)
        actor = first_actor(new, kind)
        yield _event(run.id, seq, at=run.created_at, kind=kind, state=state, detail={}, actor=actor)


def of_step(step: RunStep) -> Values:
    """The parameters of the guarded update of a run."""
    before, after, attempt = step.before, step.after, step.attempt
    values = _progress(after)
    values["new_cluster"] = attempt.allocation.cluster if attempt is not None else None
    values["new_pool"] = attempt.allocation.pool if attempt is not None else after.place.pool
    values["guard_id"] = before.id
    values["guard_seq"] = before.seq
    values["guard_share"] = body(before.share)
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
        **dict(zip(_OF_ATTEMPT, _attempt_values(attempt), strict=True)),
        "state": attempt.state.value,
        "cluster": attempt.allocation.cluster,
        "allocation": allocation_text(attempt.allocation),
        "leave_request": _word(attempt.leave_request),
        "outcome": _word(attempt.outcome),
        "cause": body(attempt.cause),
        "milestones": written(attempt.milestones) if attempt.milestones != progress.NOTHING_SEEN else None,
        "released": written(attempt.released) if attempt.released else None,
        "native": body(attempt.native),
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
            "group_id": bucket.group,
        }
        row = rows.setdefault(tuple(values.values()), values | {"slot_s": 0.0})
        row["slot_s"] += bucket.slot_s
    return list(rows.values())


def _progress(run: Run) -> Values:
    """The columns that steps change."""
    cause = run.cause
    return {
        **dict(zip(_OF_PROGRESS, _progress_values(run), strict=True)),
        "state": run.state.value,
        "outcome": _word(run.outcome),
        "message": _legible(cause.message) if cause is not None else None,
        "cause_code": cause.code.value if cause is not None else None,
        "cause": body(cause),
        "priority": run.place.priority,
        "queue_position": body(run.queue_position),
        "share": body(run.share),
        "cycle_report": body(run.cycle_report),
        "retry": body(run.retry),
        "dependencies": written(run.dependencies) if run.dependencies else None,
        "excluded_nodes": written(run.excluded_nodes) if run.excluded_nodes else None,
    }


def _event(
    run_id: str,
    seq: int,
    *,
    at: float,
    kind: lifecycle.RunEvent,
    state: lifecycle.RunState,
    detail: Mapping[str, Any],
    actor: str | None,
) -> Values:
    return {
        "run_id": run_id,
        "seq": seq,
        "at": at,
        "event": kind.value,
        "state": state.value,
        "detail": written(detail) if detail else None,
        "actor": actor,
    }


@lru_cache
def _guard(states: frozenset[lifecycle.RunState]) -> Values:
    """The parameters of the guard: it has a fixed number of states, so the last one is repeated."""
    words = sorted(state.value for state in states)
    return {f"guard_state_{index}": words[min(index, len(words) - 1)] for index in range(GUARD_STATES)}


def _word(value: StrEnum | None) -> str | None:
    """The plain text of an enum's value, because drivers treat enums differently."""
    return value.value if value is not None else None


def body(record: object | None) -> str | None:
    """The encoded record; None for none."""
    return written(record) if record is not None else None


def written(value: Any) -> str:
    """The text of a record or of a plain value for a column."""
    return _COMPACT.encode(encode(value))


_COMPACT = json.JSONEncoder(separators=(",", ":"))
allocation_text: Callable[[Allocation], str] = lru_cache(maxsize=_MOST_SPECS)(written)
"""The text of an allocation, cached because most small runs get the same ones, and each is written twice."""


def _legible(text: str) -> str:
    """The text without characters that some database cannot hold: NUL, and surrogates.

    `cause` keeps all of it.
    """
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


# --- from rows --------------------------------------------------------------------------------------


def to_run(row: Sequence[Any]) -> Run:
    """A run, from the columns of `statements._RUNS`."""
    return Run(**_values(RUN_FIELDS, _FROM_RUN, row))


def to_summary(row: Sequence[Any]) -> RunSummary:
    """One line of a list, from the columns of `statements.SUMMARIES`."""
    values = list(row)
    values[5:8] = _STATES[row[5]], _OUTCOMES[row[6]], _MODES[row[7]]
    values[17], values[-1] = _CAUSES[row[17]], bool(row[-1])
    return RunSummary(*values)


def to_attempt(row: Sequence[Any]) -> Attempt:
    """An attempt, from the columns of `statements._ATTEMPTS`."""
    return Attempt(**_values(ATTEMPT_FIELDS, _FROM_ATTEMPT, row))


def to_event(row: Sequence[Any]) -> progress.Event:
    """One step of a history, from the columns of `statements._EVENTS`."""
    return progress.Event(**_values(EVENT_FIELDS, _FROM_EVENT, row))


_USAGE_FIELDS = ("hour_at", "cluster", "pool", "user", "project", "group", "slot_s")


def to_usage(row: Sequence[Any]) -> UsageBucket:
    """The usage of an hour, from the columns of `statements.USAGE`."""
    return UsageBucket(**dict(zip(_USAGE_FIELDS, row, strict=True)))


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
    """The home that serves a cluster, from the columns of `statements.SERVERS`."""
    home = HomeIdentity(id=row[1], machine=row[2], hostname=row[3], path=row[4])
    return ServerRecord(cluster=row[0], home=home, token=row[5], seen_at=row[6])


@lru_cache(maxsize=_MOST_SPECS)
def _spec(body: str) -> RunSpec:
    return read_record(RunSpec, body)


def read_record(kind: type[T], body: str) -> T:
    """The record in a column."""
    return decode(kind, json.loads(body))


def _values(names: Sequence[str], readers: _Readers, row: Sequence[Any]) -> Values:
    """The fields of a record by name, without those that are null: the usual value of most."""
    return {
        name: value if (read := readers.get(name)) is None else read(value)
        for name, value in zip(names, row, strict=True)
        if value is not None
    }


_Readers = Mapping[str, Callable[[Any], Any]]
"""What reads a field, for those that are not used unchanged."""

_FROM_RUN: _Readers = {
    "user": intern,  # long lists have few users, and a server keeps all live runs
    "server": intern,
    "code_digest": intern,
    "spec": _spec,
    "state": _STATES.__getitem__,
    "outcome": _OUTCOMES.__getitem__,
    "cause": partial(read_record, progress.Cause),
    "queue_position": partial(read_record, QueuePosition),
    "share": partial(read_record, progress.Share),
    "cycle_report": partial(read_record, progress.CycleReport),
    "retry": partial(read_record, Retry),
    "dependencies": partial(read_record, tuple[AwaitedRun, ...]),
    "excluded_nodes": lambda body: tuple(json.loads(body)),
}
_FROM_ATTEMPT: _Readers = {
    "state": lifecycle.AttemptState,
    "allocation": partial(read_record, Allocation),
    "leave_request": lifecycle.LeaveRequest,
    "outcome": _OUTCOMES.__getitem__,
    "cause": partial(read_record, progress.Cause),
    "milestones": partial(read_record, progress.Milestones),
    "released": partial(read_record, tuple[Release, ...]),
    "native": partial(read_record, progress.NativeStatus),
}
_FROM_EVENT: _Readers = {"event": _EVENTS.__getitem__, "state": _STATES.__getitem__, "detail": json.loads}
