"""`det checkpoint ...`, and checkpoint reports of the library. Listed in `application`."""

import io
import tarfile
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any
from uuid import UUID

from starlette.responses import Response

from tarmac.artifacts.versions.manifest import DIRECTORY, FILE
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Refused
from tarmac.systems.determined.gateway.calls import (
    Access,
    Call,
    delete,
    finite,
    get,
    is_descending,
    page,
    patch,
    post,
    time_of,
)
from tarmac.systems.determined.gateway.checkpoints import (
    Checkpoint,
    checkpoints_of,
    checkpoints_of_run,
    files_of,
    find_checkpoint,
    leave_resources,
    record_of,
    reported,
)
from tarmac.systems.determined.gateway.gateway import experiment_number, experiment_of, trial_number
from tarmac.systems.determined.gateway.records import config_of, metrics_record
from tarmac.systems.determined.gateway.tasks import check_owner, run_of_trial, task_of

# --- queries


def _of_experiment(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    check_owner(call, experiment.user, f"experiment {call.number('experiment')}")
    return _listed(call, checkpoints_of(call, call.gateway.experiments.trials(experiment.id), experiment))


def _of_trial(call: Call) -> Any:
    return _listed(call, checkpoints_of_run(call, run_of_trial(call, call.number("trial"))))


def _listed(call: Call, found: list[Checkpoint]) -> Any:
    """The checkpoints in the requested order; by default by the search metric, best first."""
    if states := call.texts("states"):
        found = [each for each in found if each.state in states]
    by = call.text("sortBy") or call.text("sortByAttr") or ""
    metric = call.text("sortByMetric")
    key = next((key for word, key in _KEYS.items() if word in by), None)
    descending = is_descending(call)
    if metric is not None or "SEARCHER_METRIC" in by:
        rated = [(value, each) for each in found if (value := _rating(each, metric)) is not None]
        if metric is None and call.text("orderBy") is None:
            descending = not _smaller_is_better(found)
        rated.sort(key=lambda pair: pair[0], reverse=descending)
        unrated = [each for each in found if _rating(each, metric) is None]
        found = [*(each for _, each in rated), *reversed(unrated)]
    else:
        found.sort(key=key or (lambda each: each.at), reverse=descending)
    return page(call, "checkpoints", found, lambda part: _records(call, part))


_KEYS: Mapping[str, Callable[[Checkpoint], Any]] = {
    "TRIAL_ID": lambda each: each.run.id,
    "BATCH_NUMBER": lambda each: each.steps,
    "UUID": lambda each: each.uuid,
}
"""The sort key of checkpoints for each part of the requested name; the default is the time."""


def _rating(checkpoint: Checkpoint, metric: str | None) -> float | None:
    """A validation metric of a checkpoint; None selects the search metric."""
    found = checkpoint.metric if metric is None else checkpoint.metrics.get(metric)
    return found if isinstance(found, int | float) else None


def _smaller_is_better(found: Sequence[Checkpoint]) -> bool:
    return all(each.smaller_is_better for each in found)


def _records(call: Call, found: Sequence[Checkpoint]) -> list[dict[str, Any]]:
    return [
        checkpoint_record(
            each,
            trial=trial_number(call.gateway, each.run.id),
            experiment=experiment_number(
                call.gateway, each.experiment.id if each.experiment is not None else each.run.id
            ),
        )
        for each in found
    ]


def _one(call: Call) -> Any:
    [record] = _records(call, [find_checkpoint(call, call.path("checkpoint"))])
    return {"checkpoint": record}


def _download(call: Call) -> Response:
    """The files of a checkpoint as a gzipped tar archive."""
    checkpoint = find_checkpoint(call, call.path("checkpoint"))
    artifacts, archive = call.gateway.service.artifacts, io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for path, entry in files_of(call, checkpoint):
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


def _remove(call: Call) -> Any:
    for checkpoint in [find_checkpoint(call, uuid) for uuid in _uuids(call, "checkpointUuids")]:
        _drop(call, checkpoint)
    return {}


def _remove_files(call: Call) -> Any:
    """Remove the checkpoint files that match patterns; if every file matches, delete the checkpoints."""
    patterns = call.field("checkpointGlobs", [])
    if not isinstance(patterns, list) or not all(isinstance(each, str) for each in patterns):
        raise InvalidInput("checkpointGlobs: a list of patterns is expected")
    for checkpoint in [find_checkpoint(call, uuid) for uuid in _uuids(call, "checkpointUuids")]:
        left = {
            path: size
            for path, size in checkpoint.resources.items()
            if not any(fnmatchcase(path, each) for each in patterns)
        }
        if not left and checkpoint.resources:
            _drop(call, checkpoint)
        elif checkpoint.report is not None:
            leave_resources(call, checkpoint.report, left)
        elif len(left) < len(checkpoint.resources):
            raise Refused(
                f"checkpoint {checkpoint.uuid} is an artifact of its run, and removed whole or not at all",
                hint="det checkpoint delete, or the pattern '*'",
            )
    return {}


def _drop(call: Call, checkpoint: Checkpoint) -> None:
    artifacts, report = call.gateway.service.artifacts, checkpoint.report
    if checkpoint.version is not None:
        artifacts.remove(call.actor, checkpoint.version.version.id)
        return
    assert report is not None, "a checkpoint was reported, or is a version"
    leave_resources(call, report, {})


def _uuids(call: Call, name: str) -> list[str]:
    found = call.field(name, [])
    if not isinstance(found, list):
        raise InvalidInput(f"{name}: a list is expected")
    return [str(each) for each in found]


def _report(call: Call) -> Any:
    """Store the report of a complete checkpoint."""
    task, uuid = task_of(call), _uuid(call.field("uuid"))
    if not isinstance(call.field("metadata", {}), Mapping) or not isinstance(
        call.field("resources", {}), Mapping
    ):
        raise InvalidInput("metadata and resources: mappings are expected")
    if not call.gateway.records.put(record_of(call, task, uuid)):
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


def checkpoint_record(checkpoint: Checkpoint, *, trial: int, experiment: int) -> dict[str, Any]:
    """A checkpoint, with the numbers of its trial and experiment."""
    report = checkpoint.report.body if checkpoint.report is not None else {}
    return {
        "uuid": checkpoint.uuid,
        "taskId": report.get("taskId"),
        "allocationId": report.get("allocationId"),
        "reportTime": time_of(checkpoint.at),
        "state": checkpoint.state,
        "metadata": {"steps_completed": checkpoint.steps, **checkpoint.metadata},
        "resources": dict(checkpoint.resources),
        "storageId": report.get("storageId"),
        "training": {
            "trialId": trial,
            "experimentId": experiment,
            "experimentConfig": config_of(checkpoint.spec),
            "hparams": dict(checkpoint.run.spec.parameters or {}),
            "searcherMetric": finite(checkpoint.metric),
            "trainingMetrics": metrics_record({}),
            "validationMetrics": metrics_record(checkpoint.metrics),
        },
    }


def checkpoint_step(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint as a workload of its trial."""
    return {
        "uuid": checkpoint.uuid,
        "endTime": time_of(checkpoint.at),
        "state": checkpoint.state,
        "resources": dict(checkpoint.resources),
        "totalBatches": checkpoint.steps,
        "metadata": {"steps_completed": checkpoint.steps, **checkpoint.metadata},
    }


ROUTES = (
    get("/api/v1/experiments/{experiment}/checkpoints", _of_experiment, Access.TASK),
    get("/api/v1/trials/{trial}/checkpoints", _of_trial, Access.TASK),
    get("/api/v1/checkpoints/{checkpoint}", _one, Access.TASK),
    get("/checkpoints/{checkpoint}", _download, Access.TASK),
    delete("/api/v1/checkpoints", _remove),
    post("/api/v1/checkpoints/rm", _remove_files),
    post("/api/v1/checkpoints", _report, Access.TASK),
    patch("/api/v1/checkpoints", _patch, Access.TASK),
    post("/api/v1/checkpoints/{checkpoint}/metadata", _metadata, Access.TASK),
)
