"""Finds checkpoints of trials, from every source. Called by the routes about checkpoints and trials.

A checkpoint is one that the trial's library reported: the gateway stores its records about each of them. If
it reported none, a checkpoint is a version of the artifact `checkpoint` of the trial's run, with a UUID
derived from the version's id. The files of a reported checkpoint are in versions of the same artifact, in a
directory named by its UUID.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.artifacts.versions.catalog import VersionSummary
from tarmac.artifacts.versions.manifest import DIRECTORY, Entry
from tarmac.model.actor import Actor
from tarmac.model.errors import NotFound
from tarmac.model.experiment import Experiment
from tarmac.model.run import Run
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.model.spec import RunSpec
from tarmac.server.storage.reported_checkpoints import COMPLETED, deletions, is_deleted, reduced, steps_of
from tarmac.systems.determined.gateway.calls import Call
from tarmac.systems.determined.gateway.gateway import Gateway, experiment_id
from tarmac.systems.determined.gateway.records import StepReport, config_of, step_reports, validation_at
from tarmac.systems.determined.gateway.specs import named_source
from tarmac.systems.determined.identity import uuid_of

KIND = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint of a trial or of a standalone run, with the validation metrics of its step.

    `report` is the report of the library; without one, `version` is the artifact version.
    """

    uuid: str
    run: Run
    experiment: Experiment | None
    steps: int
    at: float
    state: str
    metadata: Mapping[str, Any]
    resources: Mapping[str, str]
    metrics: Mapping[str, Any]
    report: RunRecord | None = None
    version: VersionSummary | None = None

    @property
    def spec(self) -> RunSpec:
        """The spec of its experiment, or of a standalone run."""
        return self.experiment.spec if self.experiment is not None else self.run.spec

    @property
    def searcher(self) -> Mapping[str, Any]:
        """The search section of the configuration."""
        found: Mapping[str, Any] = config_of(self.spec)["searcher"]
        return found

    def metric(self, name: str | None = None) -> float | None:
        """The value of a validation metric; None selects the search metric."""
        found = self.metrics.get(name or str(self.searcher.get("metric")))
        return found if isinstance(found, int | float) else None


def of_experiment(call: Call, experiment: Experiment) -> list[Checkpoint]:
    """The checkpoints of an experiment's trials, by time."""
    trials = call.gateway.experiments.trials(experiment.id)
    runs = call.store.load_runs([trial.run_id for trial in trials])
    return _by_time(each for run in runs.values() for each in _of_run(call, run, experiment))


def of_run(call: Call, run: Run) -> list[Checkpoint]:
    """The checkpoints of a trial or of a standalone run, by time."""
    return _by_time(_of_run(call, run, call.gateway.experiments.experiment(experiment_id(run))))


def warm_start(call: Call, spec: RunSpec) -> str | None:
    """The UUID of the checkpoint from which a configuration's trials start, if known."""
    source = named_source(spec)
    if not isinstance(source, int):
        return source
    try:
        run = call.gateway.run_of_trial(source)
        call.check_visible(run, f"trial not found: {source}")
        found = of_run(call, run)
    except NotFound:
        return None
    return found[-1].uuid if found else None


def _by_time(found: Iterable[Checkpoint]) -> list[Checkpoint]:
    return sorted(found, key=lambda each: (each.at, each.uuid))


def find(call: Call, uuid: str) -> Checkpoint:
    """The checkpoint with a UUID; raises NotFound."""
    record = reported(call, uuid)
    if record is not None:
        run_id = record.run_id
    else:
        versions = _versions(call.gateway, call.actor, None)
        run_id = next((each.version.run_id for each in versions if _uuid(each) == uuid), "")
    run = call.store.run(run_id)
    for each in of_run(call, run) if run is not None else ():
        if each.uuid == uuid:
            return each
    raise NotFound(f"checkpoint not found: {uuid:.60}")


def files_of(call: Call, checkpoint: Checkpoint) -> list[tuple[str, Entry]]:
    """The files and directories of a checkpoint, each by its path inside; raises NotFound."""
    if checkpoint.version is not None:
        return [(each.path, each) for each in _entries(call, checkpoint.version)]
    below, found = f"{checkpoint.uuid}/", dict[int, list[tuple[str, Entry]]]()
    deleted = deletions([checkpoint.report] if checkpoint.report is not None else [])
    for summary in _versions(call.gateway, call.actor, checkpoint.run, every_rank=True):
        if here := [
            (each.path.removeprefix(below), each)
            for each in _entries(call, summary)
            if each.path.startswith(below) and not is_deleted(each.path, deleted)
        ]:
            found[summary.version.rank] = here  # the newest version on each node
    if not found:
        raise NotFound(f"the files of checkpoint {checkpoint.uuid} are not kept any more")
    return [each for here in found.values() for each in here]


def _uuid(summary: VersionSummary) -> str:
    """The UUID of an unreported checkpoint."""
    return uuid_of("checkpoint", summary.version.id)


def _of_run(call: Call, run: Run, experiment: Experiment | None) -> list[Checkpoint]:
    reports = step_reports(call.plane, call.actor, run)
    common: dict[str, Any] = {"run": run, "experiment": experiment}
    if records := call.gateway.records.of(run.id, RunRecordKind.CHECKPOINT):
        return [_reported(each, reports, common) for each in records]
    attempts = {each.number: each for each in call.plane.attempts(call.actor, run.id)}
    found = []
    for summary in _versions(call.gateway, call.actor, run):
        attempt, entries = attempts.get(summary.attempt), _entries(call, summary)
        step = attempt.milestones.checkpoint_step if attempt is not None else None
        before = [each.step for each in reports if each.at <= summary.created_at]
        found.append(
            Checkpoint(
                **common,
                uuid=_uuid(summary),
                steps=max(before, default=0) if step is None else step,
                at=summary.created_at,
                state=COMPLETED,
                metadata={"tarmac_artifact": summary.version.id},
                resources={
                    f"{each.path}/" if each.kind == DIRECTORY else each.path: str(each.size_bytes)
                    for each in entries
                },
                metrics=validation_at(reports, step=step, until=summary.created_at),
                version=summary,
            )
        )
    return found


def _reported(record: RunRecord, reports: Sequence[StepReport], common: Mapping[str, Any]) -> Checkpoint:
    steps, body = steps_of(record), record.body
    return Checkpoint(
        **common,
        uuid=record.name,
        steps=steps,
        at=record.at,
        state=body.get("state") or COMPLETED,
        metadata=body.get("metadata") or {},
        resources=body.get("resources") or {},
        metrics=validation_at(reports, step=steps, until=record.at),
        report=record,
    )


def _entries(call: Call, summary: VersionSummary) -> Sequence[Entry]:
    return call.gateway.service.artifacts.content(call.actor, summary.version.id).entries


def _versions(
    gateway: Gateway, actor: Actor, run: Run | None, *, every_rank: bool = False
) -> list[VersionSummary]:
    """The versions of checkpoints, of a run or of all, by time: of the first node, or of every node."""
    found = gateway.service.artifacts.versions(actor, run)
    chosen = [each for each in found if each.version.kind == KIND and (every_rank or each.version.rank == 0)]
    return sorted(chosen, key=lambda each: each.created_at)


def latest_checkpoint(gateway: Gateway, run: Run) -> RunRecord | None:
    """The newest complete reported checkpoint whose files are available to the next attempt.

    A run without reported checkpoints starts from those in its input artifacts.
    """
    versions = _versions(gateway, Actor(user=run.user), run)
    own = _newest(gateway, run.id, versions[-1].version.id if versions else None)
    if own is not None:
        return own
    given = [text for text in run.spec.input_artifacts if f".{KIND}." in text]
    found = [_newest(gateway, text.partition(".")[0], text) for text in given]
    return next((each for each in found if each is not None), None)


def _newest(gateway: Gateway, run_id: str, version: str | None) -> RunRecord | None:
    """The newest complete checkpoint of a run; with a version of its artifact, of those in that version."""
    whole = [
        each
        for each in gateway.records.of(run_id, RunRecordKind.CHECKPOINT)
        if each.body.get("state") == COMPLETED
    ]
    if not whole or version is None:
        return whole[-1] if whole else None
    manifest = gateway.service.artifacts.content(Actor(user=gateway.owner), version)
    kept = {entry.path.partition("/")[0] for entry in manifest.entries}
    return next((each for each in reversed(whole) if each.name in kept), None)


def leave_resources(call: Call, record: RunRecord, left: Mapping[str, Any]) -> None:
    """Reduce a checkpoint to these files; without any, it is deleted."""
    run = change_report(call, reduced(record, left))
    if run is not None:
        call.gateway.service.artifacts.clear_reported(call.actor, run)


def change_report(call: Call, record: RunRecord) -> Run | None:
    """Store another record of a checkpoint; returns its run, unless that was removed."""
    run = call.store.run(record.run_id)
    if run is not None:
        call.check_change(run)
    call.gateway.records.put(record)
    return run


def reported(call: Call, uuid: str) -> RunRecord | None:
    """The reported checkpoint with a UUID; the code of a run sees only those of its owner."""
    found = call.gateway.records.named(RunRecordKind.CHECKPOINT, uuid)
    if not found:
        return None
    run = call.store.run(found[-1].run_id)
    if run is not None:
        call.check_visible(run, f"checkpoint not found: {uuid}")
        call.check_owner(run.user, f"checkpoint {uuid}")
    return found[-1]
