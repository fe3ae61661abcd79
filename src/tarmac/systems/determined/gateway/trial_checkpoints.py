"""Checkpoints reported by the library: its records about each of them. Called by the routes.

Their files are in the run's checkpoint artifact, in a directory named by the checkpoint's UUID.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tarmac.model.actor import Actor
from tarmac.model.run import Run
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.server.storage.reported_checkpoints import COMPLETED, reduced
from tarmac.systems.determined.gateway.calls import Call
from tarmac.systems.determined.gateway.gateway import Gateway
from tarmac.systems.determined.gateway.tasks import check_owner

KIND = RunRecordKind.CHECKPOINT
_CHECKPOINTS = "checkpoint"


def latest_checkpoint(gateway: Gateway, run: Run) -> RunRecord | None:
    """The newest complete reported checkpoint whose files are available to the next attempt.

    A run without reported checkpoints starts from those in its input artifacts.
    """
    own = _newest(gateway, run.id, _newest_version(gateway, run))
    if own is not None:
        return own
    given = [text for text in run.spec.input_artifacts if f".{_CHECKPOINTS}." in text]
    found = [_newest(gateway, text.partition(".")[0], text) for text in given]
    return next((each for each in found if each is not None), None)


def _newest(gateway: Gateway, run_id: str, version: str | None) -> RunRecord | None:
    """The newest complete checkpoint of a run; with a version of its artifact, of those in that version."""
    whole = [each for each in gateway.records.of(run_id, KIND) if each.body.get("state") == COMPLETED]
    if not whole or version is None:
        return whole[-1] if whole else None
    manifest = gateway.service.artifacts.content(Actor(user=gateway.owner), version)
    kept = {entry.path.partition("/")[0] for entry in manifest.entries}
    return next((each for each in reversed(whole) if each.name in kept), None)


def _newest_version(gateway: Gateway, run: Run) -> str | None:
    """The newest version of a run's checkpoints; None if there is none yet."""
    found = [
        each
        for each in gateway.service.artifacts.versions(Actor(user=run.user), run)
        if each.version.kind == _CHECKPOINTS and each.version.rank == 0
    ]
    return max(found, key=lambda each: each.created_at).version.id if found else None


def record_of(body: Mapping[str, Any], *, run_id: str, uuid: str, attempt: int, at: float) -> RunRecord:
    """The stored part of a checkpoint report."""
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


def leave_resources(call: Call, record: RunRecord, left: Mapping[str, Any]) -> None:
    """Reduce a checkpoint to these files; without any, it is deleted."""
    call.gateway.records.put(reduced(record, left))
    run = call.gateway.service.plane.control.store.run(record.run_id)
    if run is not None:
        call.gateway.service.artifacts.clear_reported(call.actor, run)


def reported(call: Call, uuid: str) -> RunRecord | None:
    """The reported checkpoint with a UUID; the code of a run sees only those of its owner."""
    found = call.gateway.records.named(KIND, uuid)
    if not found:
        return None
    run = call.gateway.service.plane.control.store.run(found[-1].run_id)
    if run is not None:
        check_owner(call, run.user, f"checkpoint {uuid}")
    return found[-1]
