"""`det checkpoint ...`, and checkpoint reports of the library. Listed in `application`."""

import io
import tarfile
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from starlette.responses import Response

from tarmac.artifacts.versions.manifest import DIRECTORY, FILE
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.model.run_records import RunRecordKind
from tarmac.server.storage.reported_checkpoints import COMPLETED
from tarmac.systems.determined.gateway import checkpoints
from tarmac.systems.determined.gateway.calls import Access, Call, Route, finite, inner, time_of
from tarmac.systems.determined.gateway.records import config_of, metrics_record
from tarmac.systems.determined.gateway.tasks import task_of, task_record


def _of_experiment(call: Call) -> Any:
    experiment = call.experiment()
    call.check_owner(experiment.user, f"experiment {call.number('experiment')}")
    return _listed(call, checkpoints.of_experiment(call, experiment))


def _of_trial(call: Call) -> Any:
    return _listed(call, checkpoints.of_run(call, call.run_of_trial(call.number("trial"))))


def _listed(call: Call, found: list[checkpoints.Checkpoint]) -> Any:
    """The checkpoints in the requested order; by default by the search metric, best first."""
    if states := call.texts("states"):
        found = [each for each in found if each.state in states]
    by, metric = call.text("sortBy") or call.text("sortByAttr") or "", call.text("sortByMetric")
    descends = call.descends
    if metric is not None or "SEARCHER_METRIC" in by:
        rated = [(value, each) for each in found if (value := each.metric(metric)) is not None]
        if metric is None and call.text("orderBy") is None:
            descends = any(each.searcher.get("smaller_is_better") is False for each in found)
        rated.sort(key=lambda pair: pair[0], reverse=descends)
        unrated = [each for each in reversed(found) if each.metric(metric) is None]
        found = [*(each for _, each in rated), *unrated]
    else:
        found.sort(key=next(key for word, key in _KEYS.items() if word in by), reverse=descends)
    return call.page("checkpoints", found, lambda part: [_record(call, each) for each in part])


_KEYS: Mapping[str, Callable[[checkpoints.Checkpoint], Any]] = {
    "TRIAL_ID": lambda each: each.run.id,
    "BATCH_NUMBER": lambda each: each.steps,
    "UUID": lambda each: each.uuid,
    "": lambda each: each.at,
}
"""The sort key of checkpoints for a part of the requested name; the last is for any."""


def _one(call: Call) -> Any:
    return {"checkpoint": _record(call, checkpoints.find(call, call.path("checkpoint")))}


def _download(call: Call) -> Response:
    """The files of a checkpoint as a gzipped tar archive."""
    checkpoint = checkpoints.find(call, call.path("checkpoint"))
    artifacts, archive = call.gateway.service.artifacts, io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for path, entry in checkpoints.files_of(call, checkpoint):
            item = tarfile.TarInfo(path)
            item.mode, item.mtime = entry.mode & 0o777, entry.mtime_ns / 1e9
            if entry.kind == FILE:
                content = b"".join(artifacts.piece(call.actor, chunk.digest) for chunk in entry.chunks)
                item.size = len(content)
                tar.addfile(item, io.BytesIO(content))
            elif entry.kind == DIRECTORY:
                item.type = tarfile.DIRTYPE
                tar.addfile(item)
    return Response(archive.getvalue(), media_type="application/gzip")


# --- removing


def _remove(call: Call) -> None:
    for checkpoint in _named(call):
        _drop(call, checkpoint)


def _remove_files(call: Call) -> None:
    """Remove the checkpoint files that match patterns; if every file matches, delete the checkpoints."""
    patterns = call.typed("checkpointGlobs", list, "a list of patterns")
    if not all(isinstance(each, str) for each in patterns):
        raise InvalidInput("checkpointGlobs: a list of patterns is expected")
    for checkpoint in _named(call):
        left = {
            path: size
            for path, size in checkpoint.resources.items()
            if not any(fnmatchcase(path, each) for each in patterns)
        }
        if not left and checkpoint.resources:
            _drop(call, checkpoint)
        elif checkpoint.report is not None:
            checkpoints.leave_resources(call, checkpoint.report, left)
        elif len(left) < len(checkpoint.resources):
            raise Refused(
                f"checkpoint {checkpoint.uuid} is an artifact of its run, and removed whole or not at all",
                hint="det checkpoint delete, or the pattern '*'",
            )


def _named(call: Call) -> list[checkpoints.Checkpoint]:
    uuids = call.typed("checkpointUuids", list, "a list")
    return [checkpoints.find(call, str(each)) for each in uuids]


def _drop(call: Call, checkpoint: checkpoints.Checkpoint) -> None:
    if checkpoint.version is not None:
        call.gateway.service.artifacts.remove(call.actor, checkpoint.version.version.id)
        return
    assert checkpoint.report is not None, "a checkpoint was reported, or is a version"
    checkpoints.leave_resources(call, checkpoint.report, {})


def _report(call: Call) -> None:
    """Store the report of a complete checkpoint."""
    task, uuid = task_of(call), _uuid(call.field("uuid"))
    resources = call.typed("resources", dict, "a mapping")
    body = {
        "taskId": call.field("taskId"),
        "allocationId": call.field("allocationId"),
        "metadata": call.typed("metadata", dict, "a mapping"),
        "resources": {name: str(size) for name, size in resources.items()},
        "state": call.field("state") or COMPLETED,
        "storageId": call.field("storageId"),
    }
    if not call.gateway.records.put(task_record(call, task, RunRecordKind.CHECKPOINT, uuid, body)):
        raise NotFound("the run of this task is not there any more")


def _patch(call: Call) -> None:
    """Store the remaining files of checkpoints; a checkpoint without files is deleted."""
    for change in call.typed("checkpoints", list, "a list"):
        uuid = _uuid(inner(change, "uuid"))
        found = checkpoints.reported(call, uuid)
        if found is None:
            raise NotFound(f"checkpoint not found: {uuid}")
        left = inner(change, "resources", "resources")
        if left is not None:
            checkpoints.leave_resources(call, found, left)


def _metadata(call: Call) -> None:
    """Replace the complete metadata of a checkpoint."""
    uuid, metadata = _uuid(call.path("checkpoint")), inner(call.body, "checkpoint", "metadata")
    if not isinstance(metadata, Mapping):
        raise InvalidInput("checkpoint: {metadata: {...}} is expected")
    found = checkpoints.reported(call, uuid)
    if found is None:
        raise NotFound(
            f"checkpoint not found: {uuid}", hint="those that a run made by itself have no metadata to change"
        )
    checkpoints.change_report(call, replace(found, body={**found.body, "metadata": dict(metadata)}))


def _uuid(text: Any) -> str:
    try:
        return str(UUID(text))
    except (ValueError, TypeError, AttributeError):
        raise InvalidInput(f"uuid: a UUID is expected, not {text!r:.60}") from None


def _record(call: Call, checkpoint: checkpoints.Checkpoint) -> dict[str, Any]:
    report = checkpoint.report.body if checkpoint.report is not None else {}
    return _summary(checkpoint) | {
        "taskId": report.get("taskId"),
        "allocationId": report.get("allocationId"),
        "reportTime": time_of(checkpoint.at),
        "storageId": report.get("storageId"),
        "training": {
            "trialId": call.gateway.trial_number(checkpoint.run.id),
            "experimentId": call.gateway.experiment_of(checkpoint.run),
            "experimentConfig": config_of(checkpoint.spec),
            "hparams": dict(checkpoint.run.spec.parameters or {}),
            "searcherMetric": finite(checkpoint.metric()),
            "trainingMetrics": metrics_record({}),
            "validationMetrics": metrics_record(checkpoint.metrics),
        },
    }


def checkpoint_step(checkpoint: checkpoints.Checkpoint) -> dict[str, Any]:
    """A checkpoint as a workload of its trial."""
    return _summary(checkpoint) | {"endTime": time_of(checkpoint.at), "totalBatches": checkpoint.steps}


def _summary(checkpoint: checkpoints.Checkpoint) -> dict[str, Any]:
    return {
        "uuid": checkpoint.uuid,
        "state": checkpoint.state,
        "metadata": {"steps_completed": checkpoint.steps, **checkpoint.metadata},
        "resources": dict(checkpoint.resources),
    }


ROUTES = (
    Route("GET", "/api/v1/experiments/{experiment}/checkpoints", _of_experiment, Access.TASK),
    Route("GET", "/api/v1/trials/{trial}/checkpoints", _of_trial, Access.TASK),
    Route("GET", "/api/v1/checkpoints/{checkpoint}", _one, Access.TASK),
    Route("GET", "/checkpoints/{checkpoint}", _download, Access.TASK),
    Route("DELETE", "/api/v1/checkpoints", _remove),
    Route("POST", "/api/v1/checkpoints/rm", _remove_files),
    Route("POST", "/api/v1/checkpoints", _report, Access.TASK),
    Route("PATCH", "/api/v1/checkpoints", _patch, Access.TASK),
    Route("POST", "/api/v1/checkpoints/{checkpoint}/metadata", _metadata, Access.TASK),
)
