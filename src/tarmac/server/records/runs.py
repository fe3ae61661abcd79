"""Records as JSON objects: the answers of docs/api.md, made from the model. Called by the routes and streams.

`schemas` describes the same shapes to OpenAPI; a test holds the two to one another, and both to the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from tarmac.control.reports import DryRun, NodeReport
from tarmac.control.why import NamedRun, Why, WhyEstimate
from tarmac.model.codec import encode
from tarmac.model.exits import exit_status
from tarmac.model.launch import NodeLaunch
from tarmac.model.lifecycle import RunState
from tarmac.model.loss import Loss
from tarmac.model.ports import Notice, WorkerStatus
from tarmac.model.run import (
    Attempt,
    Cause,
    Event,
    Evidence,
    NativeStatus,
    Run,
    Seat,
    Share,
    Verdict,
)
from tarmac.model.spec import RunSpec
from tarmac.model.summary import RunSummary, max_turns_of, summary_of
from tarmac.node.files.secrecy import LEAST_INLINE, hidden, hidden_tree, keys_among, may_hold_secret
from tarmac.sched import Reason

Json = dict[str, Any]


def run_record(run: Run, *, warnings: Sequence[str] = ()) -> Json:
    """A `Run`."""
    spec, source = _shown(run.spec)
    return {
        "id": run.id,
        "name": run.name,
        "project": run.project,
        "user": run.user,
        "dialect": run.spec.dialect,
        "state": run.state,
        "outcome": run.outcome,
        "cause": cause_record(run.cause),
        "attempt": run.attempt,
        "mode": run.spec.mode,
        "priority": run.place.priority,
        "weight": run.place.weight,
        "pool": run.place.pool or run.spec.target.pool,
        "slots": run.spec.slots,
        "created_at": run.created_at,
        "queued_at": run.queued_at,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "failures": run.failures,
        "faults": run.faults,
        "preemptions": run.preemptions,
        "turns": run.turns,
        "max_turns": max_turns_of(run.spec),
        "retry_at": _retry_at(run),
        "attained_slot_s": run.attained_slot_s,
        "ran_s": run.ran_s,
        "verdict": _verdict_record(run.verdict),
        "share": _share_record(run.share),
        "code_digest": run.code_digest,
        "code_commit": run.code_commit,
        "exit_status": exit_status(run.outcome, run.cause) if run.state is RunState.ENDED else None,
        "spec": spec,
        "source": source,
        "warnings": list(warnings),
        "labels": dict(run.spec.labels),
    }


def _retry_at(run: Run) -> float | None:
    """Until when a run that failed, and is to be tried again, pauses."""
    return run.retry.at if run.retry is not None and run.state is RunState.QUEUED else None


def summary_record(summary: RunSummary) -> Json:
    """A `RunSummary`."""
    return summary._asdict()


def state_record(run: Run, attempt: Attempt | None) -> Json:
    """A `RunSummary` with the cause, as the log stream sends it; `attempt` is the newest."""
    place = attempt.allocation if attempt else run.spec.target
    return {**summary_record(summary_of(run, place.cluster, place.pool)), "cause": cause_record(run.cause)}


def cause_record(cause: Cause | None) -> Json | None:
    """A `Cause`."""
    if cause is None:
        return None
    return {
        "code": cause.code,
        "message": cause.message,
        "role": cause.role,
        "replica": cause.replica,
        "worker": cause.worker,
        "node": cause.node,
        "exit_code": cause.exit_code,
        "signal": cause.signal,
        "tail": list(cause.tail),
    }


def attempt_record(
    attempt: Attempt,
    workers: Sequence[WorkerStatus],
    notices: Sequence[Notice],
    *,
    directory: str | None,
    lost: Loss | None,
) -> Json:
    """An `Attempt`, with its workers, what its nodes told, and the work that it lost."""
    named = attempt.held_from is not None
    return {
        "number": attempt.number,
        "state": attempt.state,
        "engine": attempt.engine,
        "cluster": attempt.allocation.cluster,
        "nodes": list(attempt.allocation.nodes) if named else [],
        "seats": [_seat_record(seat, attempt) for seat in attempt.allocation.seats] if named else [],
        "slot_types": list(attempt.allocation.slot_types),
        "native": native_record(attempt.native),
        "created_at": attempt.created_at,
        "granted_at": attempt.held_from,
        "started_at": attempt.started_at,
        "ended_at": attempt.ended_at,
        "asked": attempt.asked,
        "asked_at": attempt.asked_at,
        "allotted_s": attempt.allotted_s,
        "evidence": _evidence_record(attempt.evidence),
        "lost": _loss_record(lost),
        "outcome": attempt.outcome,
        "cause": cause_record(attempt.cause),
        "directory": directory,
        "workers": [_worker_record(worker) for worker in workers],
        "notices": [notice_record(notice) for notice in notices],
    }


def native_record(native: NativeStatus | None) -> Json | None:
    """A `NativeStatus`."""
    if native is None:
        return None
    return {
        "id": native.id,
        "state": native.state,
        "reason": native.reason,
        "expected_start_at": native.expected_start_at,
    }


def notice_record(notice: Notice) -> Json:
    """A `Notice`."""
    return {"at": notice.at, "node": notice.node, "text": notice.text}


def event_record(event: Event) -> Json:
    """An `Event`."""
    return {
        "id": event.id,
        "seq": event.seq,
        "run_id": event.run_id,
        "at": event.at,
        "event": event.event,
        "state": event.state,
        "detail": dict(event.detail),
        "actor": event.actor,
    }


def why_record(why: Why) -> Json:
    """A `Why`."""
    return {
        "run_id": why.run_id,
        "state": why.state,
        "headline": why.headline,
        "reasons": [_reason_record(reason) for reason in why.reasons],
        "ahead": why.ahead,
        "ahead_first": [_named_record(run) for run in why.ahead_first],
        "awaits": why.awaits,
        "awaits_first": [_named_record(run) for run in why.awaits_first],
        "unblocked_by": why.unblocked_by,
        "estimate": _why_estimate_record(why.estimate),
        "largest": why.largest,
        "lost": why.lost,
    }


def _named_record(run: NamedRun) -> Json:
    return {"id": run.run_id, "name": run.name}


def node_record(report: NodeReport) -> Json:
    """A `Node`."""
    node = report.node
    return {
        "name": node.name,
        "cluster": node.cluster,
        "pool": node.pool,
        "shard": node.shard,
        "hostname": node.hostname,
        "address": node.address,
        "state": node.state,
        "slot_type": node.capacity.slot_type,
        "slots": node.capacity.slots,
        "slots_used": report.slots_used,
        "cpus": node.capacity.cpus,
        "memory_bytes": node.capacity.memory_bytes,
        "runs": [{"id": run.id, "name": run.name, "slots": run.slots} for run in report.runs],
    }


def dry_run_record(dry_run: DryRun, *, warnings: Sequence[str]) -> Json:
    """A `DryRun`, without what looks like a key."""
    launch = dry_run.launch
    spec = dry_run.run.spec
    record = {
        "run": encode(spec),
        "warnings": [*warnings, *(f"it would be refused: {problem}" for problem in dry_run.missing)],
        "placement": None if launch is None else [_placement_record(node) for node in launch.nodes],
        "reasons": [_reason_record(reason) for reason in dry_run.reasons],
        "largest": dry_run.largest,
        "request": None if dry_run.request is None else str(dry_run.request),
        "artifact_paths": {} if dry_run.request is None else dict(dry_run.request.artifact_paths),
        "rendered": dry_run.rendered,
        "nodes": [] if launch is None else [_node_launch_record(node) for node in launch.nodes],
    }
    shown: Json = hidden_tree(record, _inline_keys(spec))
    return shown


def _shown(spec: RunSpec) -> tuple[Json, str]:
    """A spec as JSON and its source, without what looks like a key."""
    record, source = encode(spec), spec.source
    record.pop("source", None)
    if may_hold_secret(source) or may_hold_secret(orjson.dumps(record).decode()):
        keys = _inline_keys(spec)
        return hidden_tree(record, keys), hidden(source, keys)
    return record, source


def _inline_keys(spec: RunSpec) -> list[str]:
    """The keys that stand among the variables of a spec, wherever else they stand in it."""
    found = keys_among(spec.environment.variables)
    return [key.value for key in found if len(key.value) >= LEAST_INLINE]


def _verdict_record(verdict: Verdict | None) -> Json | None:
    if verdict is None:
        return None
    return {
        "turns": verdict.turns,
        "first_output_s": verdict.first_output_s,
        "committed": verdict.committed,
        "kept": verdict.kept,
        "resumed": verdict.resumed,
        "proven": verdict.proven,
    }


def _share_record(share: Share | None) -> Json | None:
    if share is None:
        return None
    return {
        "period_at": share.period_at,
        "allotted_s": share.allotted_s,
        "rank": share.rank,
        "used_s": share.used_s,
        "credit_s": share.credit_s,
    }


def _evidence_record(evidence: Evidence) -> Json:
    return {
        "first_output_at": evidence.first_output_at,
        "checkpoint_at": evidence.checkpoint_at,
        "read_at": evidence.read_at,
        "checkpoint_step": evidence.checkpoint_step,
        "kept_at": evidence.kept_at or None,
    }


def _loss_record(lost: Loss | None) -> Json | None:
    if lost is None:
        return None
    return {"work_s": lost.work_s, "checkpoint_at": lost.checkpoint_at, "step": lost.step}


def _why_estimate_record(estimate: WhyEstimate | None) -> Json | None:
    if estimate is None:
        return None
    return {
        "start_at": estimate.start_at,
        "latest_at": estimate.latest_at,
        "basis": estimate.basis,
        "text": estimate.text,
    }


def _placement_record(node: NodeLaunch) -> Json:
    slots = sorted({slot for worker in node.workers for slot in worker.slots})
    return {"node": node.node, "address": node.address, "rank": node.rank, "slots": slots}


def _node_launch_record(node: NodeLaunch) -> Json:
    workers = [
        {
            "role": worker.role,
            "replica": worker.replica,
            "index": worker.index,
            "argv": list(worker.argv),
            "env": dict(worker.env),
        }
        for worker in node.workers
    ]
    return {"node": node.node, "rank": node.rank, "workers": workers}


def _seat_record(seat: Seat, attempt: Attempt) -> Json:
    key = (seat.role, seat.replica)
    released_at = next((each.at for each in attempt.released if (each.role, each.replica) == key), None)
    return {
        "role": seat.role,
        "replica": seat.replica,
        "node": seat.node,
        "slots": list(seat.slots),
        "released_at": released_at,
    }


def _worker_record(worker: WorkerStatus) -> Json:
    return {
        "role": worker.role,
        "replica": worker.replica,
        "index": worker.index,
        "node": worker.node,
        "log": worker.log,
        "pid": worker.pid,
        "started_at": worker.started_at,
        "ended_at": worker.ended_at,
        "exit_code": worker.exit_code,
        "signal": worker.signal,
    }


def _reason_record(reason: Reason) -> Json:
    return {"code": reason.code, "text": reason.text, "node": reason.node}
