"""Takes checkpoint reports of the library, and returns them. Listed in `application`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from tarmac.model.errors import InvalidInput, NotFound
from tarmac.model.record import replace
from tarmac.systems.determined.gateway.calls import Access, Call, patch, post
from tarmac.systems.determined.gateway.tasks import task_of
from tarmac.systems.determined.gateway.trial_checkpoints import leave_resources, record_of, reported


def _report(call: Call) -> Any:
    """Store the report of a complete checkpoint."""
    task, uuid = task_of(call), _uuid(call.field("uuid"))
    if not isinstance(call.field("metadata", {}), Mapping) or not isinstance(
        call.field("resources", {}), Mapping
    ):
        raise InvalidInput("metadata and resources: mappings are expected")
    now = call.gateway.service.clock.now()
    record = record_of(call.body, run_id=task.run.id, uuid=uuid, attempt=task.attempt.number, at=now)
    if not call.gateway.records.put(record):
        raise NotFound("the run of this task is not there any more")
    return {}


def _patch(call: Call) -> Any:
    """Store the remaining files of checkpoints; a checkpoint without files is deleted."""
    changes = call.field("checkpoints", [])
    if not isinstance(changes, list):
        raise InvalidInput("checkpoints: a list is expected")
    for change in changes:
        uuid = _uuid(change.get("uuid") if isinstance(change, Mapping) else None)
        found = reported(call, uuid)
        if found is None:
            raise NotFound(f"checkpoint not found: {uuid}")
        resources = change.get("resources")
        left = resources.get("resources") if isinstance(resources, Mapping) else None
        if left is not None:
            leave_resources(call, found, left)
    return {}


def _metadata(call: Call) -> Any:
    """Replace the complete metadata of a checkpoint."""
    uuid, given = _uuid(call.path("checkpoint")), call.field("checkpoint", {})
    metadata = given.get("metadata") if isinstance(given, Mapping) else None
    if not isinstance(metadata, Mapping):
        raise InvalidInput("checkpoint: {metadata: {...}} is expected")
    found = reported(call, uuid)
    if found is None:
        raise NotFound(
            f"checkpoint not found: {uuid}", hint="those that a run made by itself have no metadata to change"
        )
    call.gateway.records.put(replace(found, body={**found.body, "metadata": dict(metadata)}))
    return {}


def _uuid(text: Any) -> str:
    try:
        return str(UUID(text))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(f"uuid: a UUID is expected, not {text!r:.60}") from None


ROUTES = (
    post("/api/v1/checkpoints", _report, Access.TASK),
    patch("/api/v1/checkpoints", _patch, Access.TASK),
    post("/api/v1/checkpoints/{checkpoint}/metadata", _metadata, Access.TASK),
)
