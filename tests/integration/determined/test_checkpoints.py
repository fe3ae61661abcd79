"""Checkpoints that trials reported, with requests as `det checkpoint` sends them."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import Any

import pytest

from determined_calls import DeterminedCalls
from determined_experiments import SINGLE, create, turn
from served import Served
from tarmac.artifacts.versions.manifest import DIRECTORY, FILE, Chunk, Entry, Manifest, Version, to_bytes
from tarmac.model.metrics import MetricReport, ReportBatch

UUID = "6f4b2f8a-43f0-4d3a-9bbd-3d1f2f0a7c11"
OTHER = "7f4b2f8a-43f0-4d3a-9bbd-3d1f2f0a7c11"
FILES = {"a.pt": b"abc", "b.txt": b"text"}


def run_of(here: Served, calls: DeterminedCalls) -> str:
    """The run of the first trial."""
    [trial] = here.store.experiments.trials(calls.get("/api/v1/experiments/1")[1]["experiment"]["jobId"])
    return trial.run_id


def save(here: Served, calls: DeterminedCalls, uuids: list[str]) -> Version:
    """The first trial reports checkpoints, and a version of its artifact holds them."""
    trial = calls.get("/api/v1/trials/1")[1]["trial"]
    for steps, uuid in enumerate(uuids, start=1):
        saved = {
            "uuid": uuid,
            "taskId": trial["taskId"],
            "metadata": {"steps_completed": steps},
            "resources": {name: str(len(content)) for name, content in FILES.items()},
        }
        assert calls.post("/api/v1/checkpoints", saved)[0] == 200
    here.catalog.begin(here.home.root / "artifact-store")
    version = Version(run_id=run_of(here, calls), kind="checkpoint", rank=0, number=1)
    chunks = {name: Chunk(hashlib.sha256(data).hexdigest(), len(data)) for name, data in FILES.items()}
    for name, data in FILES.items():
        here.catalog.blobs.put(chunks[name].name, data)
    entries = [
        entry
        for uuid in uuids
        for entry in (
            Entry(uuid, DIRECTORY),
            *(Entry(f"{uuid}/{name}", FILE, 0o600, chunks=(chunk,)) for name, chunk in chunks.items()),
        )
    ]
    here.catalog.blobs.put(version.name, to_bytes(Manifest(version, 1, 1.0, 1.0, tuple(entries))))
    return version


@pytest.mark.parametrize("source", ["source_trial_id: 1", f"source_checkpoint_uuid: {OTHER}"])
def test_a_trial_says_with_which_checkpoint_it_began(
    here: Served, calls: DeterminedCalls, source: str
) -> None:
    """With the newest of the trial that its configuration names, or with the one that it names."""
    create(calls, SINGLE)
    turn(here)
    turn(here)
    save(here, calls, [UUID, OTHER])
    create(calls, SINGLE.replace("metric: loss", f"metric: loss, {source}"))
    for number, expected in ((1, None), (2, OTHER)):
        [listed] = calls.get(f"/api/v1/experiments/{number}/trials")[1]["trials"]
        trial = calls.get(f"/api/v1/trials/{number}")[1]["trial"]
        assert listed["warmStartCheckpointUuid"] == trial["warmStartCheckpointUuid"] == expected


def downloaded(calls: DeterminedCalls, uuid: str) -> Any:
    """The names of the files in what the master hands out; or the status of its refusal."""
    status, data = calls.raw("GET", f"/checkpoints/{uuid}")
    if status != 200:
        return status
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return sorted(tar.getnames())


@pytest.mark.parametrize("live", [True, False])
def test_removed_files_are_not_downloaded_and_leave_the_store(
    here: Served, calls: DeterminedCalls, live: bool
) -> None:
    """`det checkpoint rm --glob`; the versions of a live run change once it has ended."""
    create(calls, SINGLE)
    turn(here)
    turn(here)
    version = save(here, calls, [UUID, OTHER])
    if not live:
        turn(here, 20.0)
    assert downloaded(calls, UUID) == ["a.pt", "b.txt"]
    assert (
        calls.post("/api/v1/checkpoints/rm", {"checkpointGlobs": ["*.txt"], "checkpointUuids": [UUID]})[0]
        == 200
    )
    assert calls.ask("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [OTHER]})[0] == 200
    assert (downloaded(calls, UUID), downloaded(calls, OTHER)) == (["a.pt"], 404)
    paths = [entry.path for entry in here.catalog.manifest(version).entries]
    assert (f"{UUID}/b.txt" in paths, OTHER in paths) == (live, live)
    if live:
        turn(here, 20.0)
        here.artifacts.tidy()
    assert [entry.path for entry in here.catalog.manifest(version).entries] == [UUID, f"{UUID}/a.pt"]
    assert calls.ask("DELETE", "/api/v1/checkpoints", {"checkpointUuids": [UUID]})[0] == 200
    assert here.catalog.summaries() == []


def test_checkpoints_come_by_metric_those_without_one_last(here: Served, calls: DeterminedCalls) -> None:
    """`top_checkpoint()` and `list_checkpoints()` of the client need no validation."""
    create(calls, SINGLE)
    turn(here)
    turn(here)
    save(here, calls, [UUID, OTHER])

    def listed(**query: Any) -> list[str]:
        found = calls.get("/api/v1/experiments/1/checkpoints", states="STATE_COMPLETED", **query)[1]
        return [each["uuid"] for each in found["checkpoints"]]

    assert listed(sortByAttr="SORT_BY_SEARCHER_METRIC", limit=1) == [OTHER], "the newest"
    run_id = run_of(here, calls)
    report = MetricReport(at=here.clock.now(), step=1, group="validation", values={"loss": 0.5})
    batch = ReportBatch(run_id=run_id, attempt=1, node="n", begin=0, end=1, reports=(report,), events=())
    assert here.store.metrics.take([batch]) == [True]
    assert listed(sortByAttr="SORT_BY_SEARCHER_METRIC") == [UUID, OTHER]
    for order in ("ORDER_BY_ASC", "ORDER_BY_DESC"):
        assert listed(sortByMetric="loss", orderBy=order) == [UUID, OTHER]


def test_files_of_a_checkpoint_are_removed_by_patterns(here: Served, calls: DeterminedCalls) -> None:
    create(calls, SINGLE)
    turn(here)
    turn(here)
    trial = calls.get("/api/v1/trials/1")[1]["trial"]
    saved = {
        "uuid": UUID,
        "taskId": trial["taskId"],
        "metadata": {"steps_completed": 3},
        "resources": {"a.pt": "3", "b.txt": "4"},
    }
    assert calls.post("/api/v1/checkpoints", saved)[0] == 200
    trial = calls.get("/api/v1/trials/1")[1]["trial"]
    assert (trial["checkpointCount"], trial["totalCheckpointSize"]) == (1, "7")
    assert trial["wallClockTime"] > 0
    removal = {"checkpointGlobs": ["*.txt"], "checkpointUuids": [UUID]}
    assert calls.post("/api/v1/checkpoints/rm", removal)[0] == 200
    found = calls.get(f"/api/v1/checkpoints/{UUID}")[1]["checkpoint"]
    assert (found["state"], found["resources"]) == ("STATE_PARTIALLY_DELETED", {"a.pt": "3"})
    assert calls.post("/api/v1/checkpoints/rm", {**removal, "checkpointUuids": ["other"]})[0] == 404
