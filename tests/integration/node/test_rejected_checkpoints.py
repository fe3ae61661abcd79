"""An attempt failed soon with its checkpoint: the next gets the version before, then the newest again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from attempts import AttemptDirectory, Warm, worker, write_attempt
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.blobs import begin_store
from tarmac.artifacts.versions.manifest import latest, versions

SAVES = 'cd "$CHECKPOINT_ARTIFACT_PATH"; printf {0} > draft; mv draft model.bin'
FAILS = 'cd "$CHECKPOINT_ARTIFACT_PATH"; echo "found $(cat model.bin)"; {0} exit 1'


class Run:
    """Attempts of one run, all on one node."""

    def __init__(self, warm: Warm, place: Path, *, own_disk: bool) -> None:
        self.warm = warm
        self.place = place
        self.own_disk = own_disk
        self.blobs = open_blobs(str(place / "store"))
        begin_store(self.blobs)

    def attempt(self, number: int, script: str, *, rejected_by: int | None = None) -> AttemptDirectory:
        """One that has ended."""
        kept = self.place / "kept"
        sync: dict[str, Any] = {
            "command": [sys.executable, "-P", "-m", "tarmac.artifacts.versions.sidecar"],
            "store": str(self.place / "store"),
            "every_s": dict.fromkeys(("checkpoint", "crud", "lossy", "log"), 600.0),
            "patience_s": 5.0,
            "inputs": [],
            "rejected_by": rejected_by,
        }
        made = write_attempt(
            self.place,
            [worker(script)],
            name=str(number),
            number=number,
            artifacts=kept,
            node={"artifact_state": str(kept / "state.json"), "own_disk": self.own_disk},
            sync=sync,
        )
        self.warm.run(made)
        return made

    @property
    def versions(self) -> int:
        """How many are in the store."""
        return len(versions(self.blobs, "run"))


@pytest.fixture(params=[True, False], ids=["own disk", "shared disk"])
def run(warm: Warm, tmp_path: Path, request: pytest.FixtureRequest) -> Run:
    """A run with two versions: `one`, and `two`, with which programs fail."""
    made = Run(warm, tmp_path, own_disk=request.param)
    for number, content in enumerate(("one", "two"), start=1):
        assert made.attempt(number, SAVES.format(content)).ended()["outcome"] == "completed"
    assert made.attempt(3, FAILS.format("")).log().split() == ["found", "two"]
    return made


def found(attempt: AttemptDirectory) -> str:
    """What its program has read."""
    return attempt.log().removeprefix("found ").strip()


def test_the_version_before_is_restored_on_the_same_node_and_said(run: Run) -> None:
    fourth = run.attempt(4, FAILS.format(""), rejected_by=3)
    assert found(fourth) == "one"
    (text,) = [event["text"] for event in fourth.events() if event["kind"] == "notice"]
    assert text == (
        "artifacts (checkpoint): attempt 3 failed soon after it had begun from the newest checkpoint, and "
        "saved none: this attempt begins from run.checkpoint.1, the version before"
    )
    kept, restored = (
        [e for e in fourth.events() if e["kind"] == f"artifact_{w}"] for w in ("kept", "restored")
    )
    assert kept[-1]["saved_at"] == restored[0]["saved_at"], "it saved nothing"
    assert run.versions == 2


def test_the_newest_comes_back_where_the_one_before_is_no_better(run: Run) -> None:
    """Nothing is lost by the trial, not even where it wrote a log."""
    events = "printf x >> events.out.tfevents.1;"
    assert found(run.attempt(4, FAILS.format(events), rejected_by=3)) == "one"
    assert found(run.attempt(5, FAILS.format(""), rejected_by=0)) == "two"
    assert found(run.attempt(6, FAILS.format(""), rejected_by=5)) == "one"
    assert found(run.attempt(7, FAILS.format(""), rejected_by=0)) == "two"
    assert run.versions == 2


def test_what_an_attempt_saves_on_the_one_before_is_the_newest(run: Run) -> None:
    fourth = run.attempt(4, SAVES.format("three"), rejected_by=3)
    assert fourth.ended()["outcome"] == "completed"
    newest = latest(run.blobs, "run", "checkpoint", 0)
    assert newest is not None
    assert newest.number == 3
    assert found(run.attempt(5, FAILS.format(""))) == "three"
    assert found(run.attempt(6, FAILS.format(""), rejected_by=3)) == "three", "it was saved after that"


@pytest.mark.parametrize("number", [4, 6])
def test_what_was_not_kept_of_an_attempt_before_is_kept_first(run: Run, number: int) -> None:
    """Its last sync failed, as of one whose store was away: filling the directory would remove it.

    Attempts between could not begin without the store.
    """
    directory = run.place / "kept" / "checkpoint"
    (directory / "draft").write_bytes(b"four")
    (directory / "draft").rename(directory / "better.bin")
    last = run.attempt(number, FAILS.format("cat better.bin;"), rejected_by=3)
    assert "four" in last.log()


def test_without_a_version_before_the_newest_is_tried_again(warm: Warm, tmp_path: Path) -> None:
    made = Run(warm, tmp_path, own_disk=True)
    made.attempt(1, SAVES.format("one"))
    made.attempt(2, FAILS.format(""))
    third = made.attempt(3, FAILS.format(""), rejected_by=2)
    assert found(third) == "one"
    assert "notice" not in third.kinds()
