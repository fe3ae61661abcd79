"""A runner that is killed leaves no last sync, and no word of what was torn: the next attempt mends (I14)."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from attempts import AttemptDirectory, Warm, python_worker, wait_for_end, worker, write_attempt
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.blobs import begin_store
from tarmac.node.attempt.claims import lost_before

SAVES = """
import os, time
os.chdir(os.environ["CHECKPOINT_ARTIFACT_PATH"])
with open("old.bin", "wb") as file:
    file.write(b"x" * 1000)
os.utime("old.bin", (time.time() - 60,) * 2)
with open("draft", "w") as file:
    file.write("old.bin")
os.rename("draft", "latest")
half = open("half.bin", "wb", 0)
half.write(b"x" * 100000)
print("ready", flush=True)
time.sleep(1000)
"""
LISTS = worker('ls "$CHECKPOINT_ARTIFACT_PATH"')


class Run:
    """Attempts of one run, on one disk."""

    def __init__(self, place: Path, *, own_disk: bool) -> None:
        self.place = place
        self.own_disk = own_disk
        begin_store(open_blobs(str(place / "store")))

    def attempt(self, number: int, workers: Any) -> AttemptDirectory:
        """The next attempt."""
        kept = self.place / "kept"
        return write_attempt(
            self.place,
            workers,
            name=str(number),
            number=number,
            artifacts=kept,
            node={"artifact_state": str(kept / "state.json"), "own_disk": self.own_disk},
            sync={
                "command": [sys.executable, "-P", "-m", "tarmac.artifacts.versions.sidecar"],
                "store": str(self.place / "store"),
                "every_s": dict.fromkeys(("checkpoint", "crud", "lossy", "log"), 600.0),
                "patience_s": 5.0,
                "inputs": [],
            },
        )

    def lose(self, warm: Warm, attempt: AttemptDirectory) -> None:
        """Kill its runners once its workers are at work, as `kill -9` and a power loss do."""
        pids = [warm.start(attempt, name) for name in attempt.nodes]
        attempt.wait_for_line("ready")
        workers = [attempt.wait_for("worker_started", name)["pid"] for name in attempt.nodes]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        for pid in (*pids, *workers):
            wait_for_end(pid)


@pytest.mark.parametrize("own_disk", [True, False], ids=["own disk", "shared disk"])
def test_what_a_killed_runner_left_is_kept_and_mended(warm: Warm, tmp_path: Path, own_disk: bool) -> None:
    run = Run(tmp_path, own_disk=own_disk)
    run.lose(warm, run.attempt(1, [python_worker(SAVES)]))
    second = run.attempt(2, [LISTS])
    assert warm.run(second)["outcome"] == "completed", second.events()
    assert second.log().split() == ["latest", "old.bin"]
    (kept,) = [event for event in second.events() if event["kind"] == "artifact"]
    assert (kept["id"], kept["files"]) == ("run.checkpoint.1", 2)
    (restored,) = [event for event in second.events() if event["kind"] == "artifact_restored"]
    (told_at, *_) = [event["saved_at"] for event in second.events() if event["kind"] == "artifact_kept"]
    assert 0.0 < restored["saved_at"] == told_at < kept["at"]
    assert second.kinds().index("artifact") < second.kinds().index("running")
    (told,) = [event["text"] for event in second.events() if event["kind"] == "notice"]
    assert told.startswith("artifacts (checkpoint): half.bin was being written when attempt 1 ended")


def test_no_worker_of_another_node_starts_before_all_is_mended(warm: Warm, tmp_path: Path) -> None:
    run = Run(tmp_path, own_disk=False)
    run.lose(warm, run.attempt(1, {"n0": [python_worker(SAVES)], "n1": [worker("sleep 1000", replica=1)]}))
    second = run.attempt(2, {"n0": [LISTS], "n1": [{**LISTS, "replica": 1}]})
    warm.start(second, "n1")
    second.wait_for("claimed", "n1")
    warm.start(second, "n0")
    assert [second.ended(name)["outcome"] for name in second.nodes] == ["completed", "completed"]
    assert second.log("main.1.0").split() == ["latest", "old.bin"]


def test_what_was_mended_once_is_not_doubted_again(warm: Warm, tmp_path: Path) -> None:
    """The third attempt finds what the second has finished a moment before its end."""
    run = Run(tmp_path, own_disk=True)
    run.lose(warm, run.attempt(1, [python_worker(SAVES)]))
    second = run.attempt(2, [worker('echo x > "$CHECKPOINT_ARTIFACT_PATH/new"')])
    assert warm.run(second)["outcome"] == "completed"
    third = run.attempt(3, [LISTS])
    warm.run(third)
    assert third.log().split() == ["latest", "new", "old.bin"]


def test_what_no_link_has_come_to_is_not_what_an_attempt_began_from(warm: Warm, tmp_path: Path) -> None:
    """The reported loss follows from the checkpoint that the program finds, not from the next one's draft."""
    run = Run(tmp_path, own_disk=True)
    saves = "for n in 7 8; do mkdir m_$n; printf x > m_$n/model; touch -d @${n}000 m_$n/model; done"
    first = run.attempt(
        1, [worker(f'cd "$CHECKPOINT_ARTIFACT_PATH"; {saves}; ln -s m_7 m.latest_checkpoint')]
    )
    assert warm.run(first)["outcome"] == "completed"
    second = run.attempt(2, [LISTS])
    warm.run(second)
    (restored,) = [event for event in second.events() if event["kind"] == "artifact_restored"]
    assert restored["saved_at"] == 7000.0


def attempts(place: Path, *told: list[list[str] | None]) -> AttemptDirectory:
    """Attempts with the events of their nodes n0, n1, ...; and one more without any."""
    for number, nodes in enumerate(told, start=1):
        for rank, kinds in enumerate(nodes):
            if kinds is not None:
                node = write_attempt_paths(place, number, f"n{rank}")
                lines = [json.dumps({"kind": kind, "at": 1.0}) + "\n" for kind in kinds]
                (node / "events.jsonl").write_text("".join(lines))
                (node / "heartbeat").touch()
                os.utime(node / "heartbeat", (number * 100 + rank + 4e9,) * 2)
    return write_attempt(place, [LISTS], name=str(len(told) + 1))


def write_attempt_paths(place: Path, number: int, node: str) -> Path:
    """The directory of a node's part."""
    made = place / str(number) / "nodes" / node
    made.mkdir(parents=True)
    return made


WHOLE, CUT, UNSTARTED = ["claimed", "worker_started", "ended"], ["claimed", "worker_started"], ["claimed"]


@pytest.mark.parametrize(
    ("told", "number"),
    [
        ([], None),
        ([[WHOLE]], None),
        ([[CUT]], 1),
        ([[WHOLE, CUT]], 1),
        ([[CUT], [WHOLE]], None),
        ([[CUT], [UNSTARTED], [[*UNSTARTED, "ended"]]], 1),
        ([[CUT], [None], [CUT]], 3),
    ],
    ids=str,
)
def test_the_last_attempt_whose_workers_started_is_lost_if_it_says_no_end(
    tmp_path: Path, told: list[list[list[str] | None]], number: int | None
) -> None:
    last = attempts(tmp_path, *told)
    lost = lost_before(last.paths, len(told) + 1)
    assert (lost and lost.number) == number
    assert lost is None or lost.at > time.time(), "the heartbeat tells when"
    assert lost_before(last.paths, len(told) + 1, ["elsewhere"]) is None
