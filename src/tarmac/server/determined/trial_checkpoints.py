"""Checkpoints that the library reported: what it keeps with its master about each. Called by the routes.

Their files are in the run's checkpoint artifact, in a directory named by the checkpoint's UUID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.model.actor import Actor
from tarmac.model.run import Run
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.server.determined.gateway import Gateway

COMPLETED = "STATE_COMPLETED"
KIND = RunRecordKind.CHECKPOINT


def steps_of(record: RunRecord) -> int:
    """How many steps a checkpoint is of."""
    metadata = record.body.get("metadata")
    found = metadata.get("steps_completed") if isinstance(metadata, Mapping) else None
    return found if type(found) is int and found >= 0 else 0


def latest_checkpoint(gateway: Gateway, run: Run) -> RunRecord | None:
    """The newest checkpoint that a run reported whole, and whose files the next attempt will find."""
    whole = [each for each in gateway.records.of(run.id, KIND) if each.body.get("state") == COMPLETED]
    if not whole:
        return None
    kept = _kept(gateway, run)
    return next((each for each in reversed(whole) if kept is None or each.name in kept), None)


def _kept(gateway: Gateway, run: Run) -> set[str] | None:
    """The directories in the newest version of a run's checkpoints; None where there is no version yet."""
    actor, artifacts = Actor(user=run.user), gateway.service.artifacts
    found = [
        each
        for each in artifacts.versions(actor, run)
        if each.version.kind == "checkpoint" and each.version.rank == 0
    ]
    if not found:
        return None
    newest = max(found, key=lambda each: each.created_at)
    manifest = artifacts.content(actor, newest.version.id)
    return {entry.path.partition("/")[0] for entry in manifest.entries}


def record_of(body: Mapping[str, Any], *, run_id: str, uuid: str, attempt: int, at: float) -> RunRecord:
    """What a checkpoint's report says, as far as it is kept."""
    return RunRecord(
        run_id=run_id,
        kind=KIND,
        name=uuid,
        attempt=attempt,
        at=at,
        body={
            "taskId": body.get("taskId"),
            "allocationId": body.get("allocationId"),
            "metadata": dict(body.get("metadata") or {}),
            "resources": {name: str(size) for name, size in (body.get("resources") or {}).items()},
            "state": body.get("state") or COMPLETED,
            "storageId": body.get("storageId"),
        },
    )
