"""`det checkpoint ...`, `det experiment list-checkpoints`: checkpoints of trials. Listed in `route_list`.

A checkpoint is what the library of a trial reported; where it reported none, a version of the artifact
`checkpoint` of the trial's run, with a UUID made of the version's id.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, Manifest
from tarmac.dialects.determined.identity import uuid_of
from tarmac.model.errors import InvalidInput, NotFound
from tarmac.model.experiment import Experiment, Trial
from tarmac.model.run import Run
from tarmac.server.determined.calls import Access, Call, delete, get
from tarmac.server.determined.experiment_records import config_of
from tarmac.server.determined.numbering import experiment_number, experiment_of, trial_number, trial_of
from tarmac.server.determined.reported_checkpoints_api import checkpoint_record, listed, reported
from tarmac.server.determined.written import finite, is_descending, page, time_of

KIND = "checkpoint"


def _of_experiment(call: Call) -> Any:
    experiment = experiment_of(call.gateway, call.number("experiment"))
    trials = call.gateway.experiments.trials(experiment.id)
    if (reported := listed(call, trials, descending=is_descending(call))) is not None:
        return reported
    return _listed(call, [found for trial in trials for found in _versions(call, trial)], experiment)


def _of_trial(call: Call) -> Any:
    trial, _ = trial_of(call.gateway, call.number("trial"))
    experiment = call.gateway.experiments.experiment(trial.experiment)
    assert experiment is not None, "a trial has one"
    if (reported := listed(call, [trial], descending=is_descending(call))) is not None:
        return reported
    return _listed(call, _versions(call, trial), experiment)


Found = tuple[Trial, VersionSummary]


def _listed(call: Call, found: list[Found], experiment: Experiment) -> Any:
    """The checkpoints in the order that is asked for: by the trial's metric, best first, or by their time."""
    if "METRIC" in (call.text("sortByAttr") or "") or call.text("sortByMetric"):
        sign = 1.0 if experiment.search.smaller_is_better else -1.0
        found = [each for each in found if each[0].best is not None]
        found.sort(key=lambda each: (sign * (each[0].best or 0.0), each[1].created_at))
    else:
        found.sort(key=lambda each: each[1].created_at)
        if is_descending(call):
            found.reverse()

    def records(part: Sequence[Found]) -> list[dict[str, Any]]:
        return [_record(call, trial, summary, experiment) for trial, summary in part]

    return page(call, "checkpoints", found, records)


def _versions(call: Call, trial: Trial) -> list[Found]:
    run = call.gateway.service.plane.control.store.run(trial.run_id)
    return [(trial, each) for each in _summaries(call, run)] if run is not None else []


def _summaries(call: Call, run: Run | None) -> list[VersionSummary]:
    found = call.gateway.service.artifacts.versions(call.actor, run)
    return [each for each in found if each.version.kind == KIND and each.version.rank == 0]


def checkpoint_uuid(summary: VersionSummary) -> str:
    """The UUID of a checkpoint."""
    return uuid_of("checkpoint", summary.version.id)


def _find(call: Call, uuid: str) -> tuple[Trial, VersionSummary]:
    summary = next((each for each in _summaries(call, None) if checkpoint_uuid(each) == uuid), None)
    trial = call.gateway.experiments.trial_of(summary.version.run_id) if summary is not None else None
    if summary is None or trial is None:
        raise NotFound(f"checkpoint not found: {uuid:.60}")
    return trial, summary


def _one(call: Call) -> Any:
    if (record := reported(call, call.path("checkpoint"))) is not None:
        return {"checkpoint": checkpoint_record(call, record)}
    trial, summary = _find(call, call.path("checkpoint"))
    experiment = call.gateway.experiments.experiment(trial.experiment)
    assert experiment is not None, "a trial has one"
    return {"checkpoint": _record(call, trial, summary, experiment)}


def _record(call: Call, trial: Trial, summary: VersionSummary, experiment: Experiment) -> dict[str, Any]:
    manifest = _manifest(call, summary)
    metric = {experiment.search.metric: finite(trial.best)} if trial.best is not None else {}
    attempt = next(
        (
            each
            for each in call.gateway.service.plane.attempts(call.actor, trial.run_id)
            if each.number == summary.attempt
        ),
        None,
    )
    step = attempt.milestones.checkpoint_step if attempt is not None else None
    return {
        "uuid": checkpoint_uuid(summary),
        "taskId": None,
        "allocationId": None,
        "reportTime": time_of(summary.created_at),
        "state": "STATE_COMPLETED",
        "metadata": {"steps_completed": step or 0, "tarmac_artifact": summary.version.id},
        "resources": {
            f"{entry.path}/" if entry.kind == DIRECTORY else entry.path: str(entry.size_bytes)
            for entry in manifest.entries
        },
        "storageId": None,
        "training": {
            "trialId": trial_number(call.gateway, trial.run_id),
            "experimentId": experiment_number(call.gateway, experiment.id),
            "experimentConfig": config_of(experiment.spec),
            "hparams": dict(trial.parameters),
            "searcherMetric": finite(trial.best),
            "trainingMetrics": {"avgMetrics": {}, "batchMetrics": []},
            "validationMetrics": {"avgMetrics": metric, "batchMetrics": []},
        },
    }


def _manifest(call: Call, summary: VersionSummary) -> Manifest:
    return call.gateway.service.artifacts.content(call.actor, summary.version.id)


def _download(call: Call) -> Response:
    """The files of a checkpoint as a tar archive, packed with gzip."""
    _, summary = _find(call, call.path("checkpoint"))
    artifacts, archive = call.gateway.service.artifacts, io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        for entry in _manifest(call, summary).entries:
            item = tarfile.TarInfo(entry.path)
            item.mode, item.mtime = entry.mode & 0o777, entry.mtime_ns / 1e9
            if entry.kind == FILE:
                content = b"".join(artifacts.piece(call.actor, chunk.digest) for chunk in entry.chunks)
                item.size = len(content)
                tar.addfile(item, io.BytesIO(content))
            elif entry.kind == DIRECTORY:
                item.type = tarfile.DIRTYPE
                tar.addfile(item)
    return Response(archive.getvalue(), media_type="application/gzip")


def _remove(call: Call) -> Any:
    uuids = call.field("checkpointUuids", [])
    if not isinstance(uuids, list):
        raise InvalidInput("checkpointUuids: a list is expected")
    for _, summary in [_find(call, str(uuid)) for uuid in uuids]:
        call.gateway.service.artifacts.remove(call.actor, summary.version.id)
    return {}


ROUTES = (
    get("/api/v1/experiments/{experiment}/checkpoints", _of_experiment),
    get("/api/v1/trials/{trial}/checkpoints", _of_trial),
    get("/api/v1/checkpoints/{checkpoint}", _one, Access.TASK),
    get("/checkpoints/{checkpoint}", _download),
    delete("/api/v1/checkpoints", _remove),
)
