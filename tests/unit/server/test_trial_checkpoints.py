"""The checkpoints of an experiment: its policy says which stay once it has ended (D10).

What a live or paused trial resumes from stays in any case.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from histories import new_run, spec, step
from scratch_store import ScratchStore
from tarmac.artifacts.versions.catalog import Catalog, Rules
from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, Chunk, Entry, Manifest, Version, to_bytes
from tarmac.engines.sim.clock import VirtualClock
from tarmac.model.codec import replace
from tarmac.model.experiment import Experiment, ExperimentChange, Trial
from tarmac.model.lifecycle import ExperimentState, RunEvent
from tarmac.model.metrics import MetricReport, ReportBatch
from tarmac.model.progress import Outcome
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.model.search import CheckpointPolicy, SearchMethod, SearchSpec, TrialPlace
from tarmac.model.spec import Conventions
from tarmac.server.storage.artifact_service import ArtifactService
from tarmac.server.storage.site_artifacts import SiteArtifacts

KIND = RunRecordKind.CHECKPOINT
NOW = 1_700_000_000.0
LOSSES = {"r1": (0.5, 0.2, 0.9), "r2": (0.4, 0.3, 0.6)}
"""What each trial reported just before its checkpoints 1, 2 and 3."""


class Finished:
    """An experiment of two trials with three checkpoints each."""

    conventions = Conventions()

    def __init__(self, root: Path, policy: CheckpointPolicy, *, versions: int = 9) -> None:
        self.store = ScratchStore()
        self.catalog = Catalog(str(root / "artifacts"))
        self.catalog.begin(root / "marker")
        rules = Rules(versions=versions, days=None)
        sites = SiteArtifacts(self.catalog, self.store, engines=dict, keep_versions=3)
        self.service = ArtifactService(
            self.catalog, self.store, VirtualClock(NOW), rules, marker=root / "marker", sites=sites
        )
        search = SearchSpec(method=SearchMethod.RANDOM, metric="loss", max_trials=2, checkpoints=policy)
        self.experiment = self.store.experiments.create(
            ExperimentChange(
                before=None,
                after=Experiment(
                    id="e1",
                    spec=spec(name="digits", search=search),
                    user="ada",
                    created_at=1.0,
                    server="local",
                ),
                trials=tuple(Trial(experiment="e1", number=at, run_id=f"r{at}") for at in (1, 2)),
                new_runs=tuple(
                    new_run(
                        f"r{at}",
                        trial=TrialPlace(experiment="e1", number=at, metric="loss"),
                        conventions=self.conventions,
                    )
                    for at in (1, 2)
                ),
            )
        )
        for run_id, losses in LOSSES.items():
            for number, loss in enumerate(losses, start=1):
                self._checkpoint(run_id, number, loss)

    def _checkpoint(self, run_id: str, number: int, loss: float) -> None:
        report = MetricReport(at=number * 10.0, step=number, values={"loss": loss})
        batch = ReportBatch(
            run_id=run_id, attempt=1, node="n", begin=number - 1, end=number, reports=(report,), events=()
        )
        assert self.store.metrics.take([batch]) == [True]
        version = Version(run_id=run_id, kind="checkpoint", rank=0, number=number)
        at = number * 10.0 + 1
        entries = self.entries(run_id, number)
        self.catalog.blobs.put(version.name, to_bytes(Manifest(version, 1, at, at, entries)))

    def entries(self, run_id: str, number: int) -> tuple[Entry, ...]:
        """What a version holds."""
        return ()

    def end(self, *, leave_out: str = "") -> None:
        """The experiment ends, and its runs but one."""
        for run_id in LOSSES:
            run = self.store.run(run_id)
            if run is not None and run_id != leave_out:
                assert self.store.apply([step(run, RunEvent.STOP_REQUESTED)]) == [True]
        after = replace(
            self.experiment, seq=2, state=ExperimentState.ENDED, outcome=Outcome.COMPLETED, ended_at=200.0
        )
        assert self.store.experiments.apply(ExperimentChange(before=self.experiment, after=after))

    def left(self) -> list[str]:
        """What a clearing leaves: run and number; a second one leaves the same."""
        self.service.tidy()
        once = self.catalog.summaries()
        self.service.tidy()
        assert self.catalog.summaries() == once
        return [f"{item.version.run_id}.{item.version.number}" for item in once]


class Reported(Finished):
    """The same of trials whose code reports its checkpoints: each version holds those before it too.

    The metric of a step is reported after its checkpoint.
    """

    conventions = Conventions(system="determined")

    def entries(self, run_id: str, number: int) -> tuple[Entry, ...]:
        record = RunRecord(
            run_id=run_id,
            kind=KIND,
            name=f"{run_id}.{number}",
            attempt=1,
            at=number * 10.0 - 1,
            body={
                "state": "STATE_COMPLETED",
                "metadata": {"steps_completed": number},
                "resources": {"a.pt": "1", "b.txt": "1"},
            },
        )
        assert self.store.run_records.put(record)
        return tuple(
            Entry(f"{run_id}.{each}{path}", kind, chunks=(Chunk("0" * 64, 1),) if kind == FILE else ())
            for each in range(1, number + 1)
            for path, kind in (("", DIRECTORY), ("/a.pt", FILE), ("/b.txt", FILE))
        )

    def left(self) -> list[str]:
        """The checkpoints of which the versions hold the files; a second clearing reads no version again."""
        self.service.tidy()
        once = self.catalog.summaries()
        self.service.tidy()
        assert self.catalog.summaries() == once
        manifests = [self.catalog.manifest(item.version) for item in once]
        return sorted({each.path.partition("/")[0] for found in manifests for each in found.entries})

    def states(self) -> dict[str, str]:
        records = [each for run_id in LOSSES for each in self.store.run_records.of(run_id, KIND)]
        return {each.name: each.body["state"] for each in records}


ALL = [f"{run_id}.{number}" for run_id in LOSSES for number in (1, 2, 3)]
BEST = CheckpointPolicy(experiment_best=1, trial_best=0, trial_latest=0)


POLICIES = pytest.mark.parametrize(
    ("policy", "left"),
    [
        (BEST, ["r1.2"]),
        (CheckpointPolicy(experiment_best=2, trial_best=0, trial_latest=0), ["r1.2", "r2.2"]),
        (CheckpointPolicy(), ["r1.2", "r1.3", "r2.2", "r2.3"]),
        (CheckpointPolicy(trial_best=0), ["r1.3", "r2.3"]),
        (CheckpointPolicy(trial_best=2, trial_latest=0), ["r1.1", "r1.2", "r2.1", "r2.2"]),
        (CheckpointPolicy(trial_best=0, trial_latest=0), []),
        (CheckpointPolicy(every=True), ALL),
    ],
)


@POLICIES
def test_what_an_ended_experiment_keeps(tmp_path: Path, policy: CheckpointPolicy, left: list[str]) -> None:
    ended = Finished(tmp_path, policy)
    ended.end()
    assert ended.left() == left


@POLICIES
def test_what_an_ended_experiment_keeps_of_reported_checkpoints(
    tmp_path: Path, policy: CheckpointPolicy, left: list[str]
) -> None:
    """The files go with the record, and the metric is that of the checkpoint's own step."""
    ended = Reported(tmp_path, policy)
    assert ended.left() == ALL, "nothing goes while the experiment is active"
    ended.end()
    assert ended.left() == left
    deleted = dict.fromkeys(set(ALL) - set(left), "STATE_DELETED")
    assert ended.states() == dict.fromkeys(ALL, "STATE_COMPLETED") | deleted


def test_reported_checkpoints_that_a_live_run_begins_with_stay(tmp_path: Path) -> None:
    ended = Reported(tmp_path, BEST)
    ended.end()
    ended.store.create_runs([new_run("r9", input_artifacts=("r2.checkpoint.3",))])
    assert ended.left() == ["r1.2", "r2.1", "r2.2", "r2.3"]
    assert ended.states()["r2.3"] == "STATE_COMPLETED"


def test_what_a_later_attempt_brings_back_goes_again(tmp_path: Path) -> None:
    """Its directory on the node still holds what was deleted from the store."""
    ended = Reported(tmp_path, BEST)
    ended.end()
    assert ended.left() == ["r1.2"]
    version = Version(run_id="r1", kind="checkpoint", rank=0, number=4)
    entries = tuple(Entry(f"r1.{each}/a.pt", FILE, chunks=(Chunk("0" * 64, 1),)) for each in (1, 2, 3, 7))
    ended.catalog.blobs.put(version.name, to_bytes(Manifest(version, 2, 99.0, 99.0, entries)))
    assert ended.left() == ["r1.2", "r1.7"]


def test_nothing_is_collected_while_it_goes_on_or_a_trial_still_leaves(tmp_path: Path) -> None:
    going = Finished(tmp_path, BEST)
    assert going.left() == ALL
    going.end(leave_out="r2")
    assert going.left() == ALL


def test_meanwhile_the_best_is_spared_by_the_usual_retention(tmp_path: Path) -> None:
    """The newest of each trial stays too: it resumes from that."""
    going = Finished(tmp_path, BEST, versions=1)
    assert going.left() == ["r1.2", "r1.3", "r2.3"]


def test_the_input_of_a_live_run_stays(tmp_path: Path) -> None:
    """As of a trial that is gone on with from there."""
    ended = Finished(tmp_path, BEST)
    ended.end()
    ended.store.create_runs([new_run("r9", input_artifacts=("r2.checkpoint.3",))])
    assert ended.left() == ["r1.2", "r2.3"]


def test_the_checkpoints_of_a_removed_experiment_are_those_of_plain_runs(tmp_path: Path) -> None:
    ended = Finished(tmp_path, BEST)
    ended.end()
    assert ended.store.experiments.remove("e1")
    assert ended.left() == ALL
