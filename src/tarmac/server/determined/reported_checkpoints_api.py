"""Checkpoints as the library reports them and asks for them again. Listed in `route_list`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from tarmac.model.errors import Forbidden, InvalidInput, NotFound
from tarmac.model.experiment import Trial
from tarmac.model.run_records import RunRecord
from tarmac.server.determined.calls import Access, Call, patch, post
from tarmac.server.determined.numbering import experiment_number, trial_number
from tarmac.server.determined.tasks import find_task, task_of
from tarmac.server.determined.tokens import TokenKind
from tarmac.server.determined.trial_checkpoints import KIND, record_of
from tarmac.server.determined.written import finite, page, time_of


def _report(call: Call) -> Any:
    """A checkpoint is whole."""
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
    """Which files of checkpoints are left: one that has none is deleted."""
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
            state = "STATE_PARTIALLY_DELETED" if left else "STATE_DELETED"
            body = {**found.body, "resources": {k: str(v) for k, v in left.items()}, "state": state}
            call.gateway.records.put(replace(found, body=body))
    return {}


def reported(call: Call, uuid: str) -> RunRecord | None:
    """The checkpoint that was reported with a UUID; code of a run sees those of its owner alone."""
    found = call.gateway.records.named(KIND, uuid)
    if not found:
        return None
    run = call.gateway.service.plane.control.store.run(found[-1].run_id)
    claim = call.claim
    by_task = claim is not None and claim.kind is TokenKind.ALLOCATION
    if by_task and run is not None and run.user != call.actor.user:
        raise Forbidden(f"checkpoint {uuid} is of a run of {run.user}")
    return found[-1]


def checkpoint_record(call: Call, record: RunRecord) -> dict[str, Any]:
    """A checkpoint as Determined has it."""
    gateway = call.gateway
    task = find_task(call, record.run_id, None)
    experiment = task.experiment.id if task.experiment is not None else record.run_id
    best, name = task.trial.best if task.trial is not None else None, str(task.searcher.get("metric"))
    return {
        **record.body,
        "uuid": record.name,
        "reportTime": time_of(record.at),
        "training": {
            "trialId": trial_number(gateway, record.run_id),
            "experimentId": experiment_number(gateway, experiment),
            "experimentConfig": task.config,
            "hparams": dict(task.run.spec.parameters or {}),
            "searcherMetric": finite(best),
            "trainingMetrics": {"avgMetrics": {}, "batchMetrics": []},
            "validationMetrics": {
                "avgMetrics": {name: finite(best)} if best is not None else {},
                "batchMetrics": [],
            },
        },
    }


def listed(call: Call, trials: Sequence[Trial], *, descending: bool) -> dict[str, Any] | None:
    """The checkpoints that trials reported, by time; None where they reported none."""
    found = [record for trial in trials for record in call.gateway.records.of(trial.run_id, KIND)]
    found.sort(key=lambda each: (each.at, each.name), reverse=descending)
    if not found:
        return None
    return page(call, "checkpoints", found, lambda part: [checkpoint_record(call, each) for each in part])


def _uuid(text: Any) -> str:
    try:
        return str(UUID(text))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(f"uuid: a UUID is expected, not {text!r:.60}") from None


ROUTES = (
    post("/api/v1/checkpoints", _report, Access.TASK),
    patch("/api/v1/checkpoints", _patch, Access.TASK),
)
