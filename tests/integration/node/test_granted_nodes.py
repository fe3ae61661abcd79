"""Runners on nodes that a cluster with a queue of its own has given: where workers meet is settled there."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from attempts import PATIENCE_S, AttemptDirectory, worker, write_attempt
from tarmac.engines.attempts.aggregate_outcome import observation
from tarmac.engines.attempts.view import open_view
from tarmac.node.attempt.protocol import LATE_PORT, MEETING_FILE, late_address
from tarmac.node.kernel import sockets
from tarmac.node.starting import Installation

NODES = "login-x=127.0.0.1,gpu-7=127.0.0.2"

ENV = {
    "MASTER_ADDR": late_address(0),
    "MASTER_PORT": LATE_PORT,
    "WORLD_SIZE": "2",
    "NODES": json.dumps({late_address(rank): rank for rank in range(2)}),
    "CUDA_VISIBLE_DEVICES": "0,1",
}
SHOW = "echo $MASTER_ADDR $MASTER_PORT $RANK $WORLD_SIZE $CUDA_VISIBLE_DEVICES; echo $NODES"


def ranks(root: Path, script: str = SHOW, **fields: Any) -> AttemptDirectory:
    """An attempt on two nodes that go by their rank; each worker says what it sees."""
    workers = {
        f"rank-{rank}": [{**worker(script, replica=rank, env={**ENV, "RANK": str(rank)}), "slots": [0, 1]}]
        for rank in range(2)
    }
    return write_attempt(root, workers, **fields)


@contextmanager
def joined(
    directory: Path, rank: int, *, nodes: str = NODES, ends_at: str = "", devices: str | None = None
) -> Iterator[None]:
    """A runner as a launcher of the cluster would start it."""
    command = Installation(sys.executable).join(str(directory), str(rank), nodes, ends_at, devices)
    with subprocess.Popen(command) as process:
        yield
        assert process.wait(PATIENCE_S) == 0


def run(attempt: AttemptDirectory, order: Sequence[int] = (0, 1), **how: Any) -> list[dict[str, Any]]:
    """Both runners, to their end; the last event of each."""
    with ExitStack() as runners:
        for rank in order:
            runners.enter_context(joined(attempt.path, rank, **how))
        return [attempt.ended(f"rank-{rank}") for rank in range(2)]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_workers_meet_at_the_first_node_at_a_port_it_found(tmp_path: Path, order: Sequence[int]) -> None:
    attempt = ranks(tmp_path)
    ends = run(attempt, order)
    assert [end["outcome"] for end in ends] == ["completed", "completed"]
    port = json.loads((attempt.path / MEETING_FILE).read_text())["port"]
    for rank in range(2):
        first, names = attempt.log(f"main.{rank}.0").splitlines()
        assert first == f"127.0.0.1 {port} {rank} 2 0,1"
        assert json.loads(names) == {"127.0.0.1": 0, "127.0.0.2": 1}


def test_what_was_written_for_the_node_names_the_others_too(tmp_path: Path) -> None:
    files = {"peers": f"{late_address(1)}:{LATE_PORT}"}
    attempt = ranks(tmp_path, 'cat "$OLDPWD/nodes/rank-0/files/peers" || true', files=files)
    run(attempt)
    port = json.loads((attempt.path / MEETING_FILE).read_text())["port"]
    assert Path(attempt.node("rank-0").files, "peers").read_text() == f"127.0.0.2:{port}"


def test_an_engine_hears_what_the_nodes_are_called(tmp_path: Path) -> None:
    attempt = ranks(tmp_path)
    run(attempt, nodes="a17,b3=10.0.0.3")
    view = open_view("run.1", attempt.path)
    assert view is not None
    view.refresh()
    assert observation([node.facts for node in view.nodes], None).nodes == ("a17", "b3")
    assert [status.node for node in view.nodes for status in node.workers.values()] == ["a17", "b3"]
    assert attempt.log().startswith("a17 ")


def test_each_worker_is_given_the_devices_of_its_slots(tmp_path: Path) -> None:
    attempt = ranks(tmp_path)
    run(attempt, devices="4,GPU-6f1a")
    assert attempt.log().splitlines()[0].endswith(" 4,GPU-6f1a")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"devices": "3"}, " was given 1 devices, and main."),
        ({"nodes": "login-x,b,c"}, "the attempt needs 2 nodes, and was given 3"),
    ],
)
def test_another_gift_than_was_asked_for_is_the_platforms_fault(
    tmp_path: Path, how: dict[str, str], text: str
) -> None:
    ends = run(ranks(tmp_path), **how)
    assert {end["cause"]["code"] for end in ends} == {"platform_fault"}
    assert text in ends[0]["cause"]["message"]


def test_who_waits_for_the_first_node_can_be_stopped(tmp_path: Path) -> None:
    attempt = ranks(tmp_path)
    with joined(attempt.path, 1):
        attempt.wait_for("claimed", "rank-1")
        attempt.ask("stop")
        assert attempt.ended("rank-1")["outcome"] == "stopped"


def test_before_the_end_of_their_job_all_nodes_leave_together_and_save(tmp_path: Path) -> None:
    """The clock of the second node is wrong: it believes that there is an hour left."""
    saves = "trap 'echo saved; exit 0' TERM; echo ${TARMAC_LEAVE_AT%.*}; sleep 3600 & wait"
    attempt, now = ranks(tmp_path, saves), int(time.time())
    first = joined(attempt.path, 0, ends_at=str(now + 4))
    with first, joined(attempt.path, 1, ends_at=str(now + 3600)):
        ends = [attempt.ended(f"rank-{rank}") for rank in range(2)]
    assert [(end["outcome"], end["cause"]["code"]) for end in ends] == [("preempted", "wall_time")] * 2
    leave_at, saved = attempt.log().split()
    assert now < int(leave_at) < now + 4, "workers can know how much time is left"
    assert saved == "saved"
    assert attempt.log("main.1.0").endswith("saved\n")


def test_a_person_who_pauses_it_meanwhile_comes_first(tmp_path: Path) -> None:
    stays = "trap 'sleep 3600 & wait' TERM; echo ready; sleep 3600 & wait"
    attempt = ranks(tmp_path, stays, grace_s=2.0)
    ends_at = str(int(time.time()) + 4)
    with joined(attempt.path, 0, ends_at=ends_at), joined(attempt.path, 1, ends_at=ends_at):
        attempt.wait_for("asked", "rank-1")
        attempt.ask("pause")
        assert [attempt.ended(f"rank-{rank}")["outcome"] for rank in range(2)] == ["paused"] * 2


def test_nodes_that_share_no_directory_agree_on_a_port_by_themselves(tmp_path: Path) -> None:
    attempt = ranks(tmp_path / "one", shared_directory=False)
    other = tmp_path / "two"
    shutil.copytree(attempt.path, other, ignore=lambda _path, names: {"news"} & set(names))
    with joined(attempt.path, 0), joined(other, 1):
        pass
    port = sockets.derived_port("run.1")
    for rank, directory in enumerate((attempt.path, other)):
        seen = (directory / f"logs/main.{rank}.0.log").read_text()
        assert seen.splitlines()[0] == f"127.0.0.1 {port} {rank} 2 0,1"


def test_there_a_port_that_is_taken_ends_the_attempt_which_then_gets_another(tmp_path: Path) -> None:
    attempt = ranks(
        tmp_path, shared_directory=False, attempt_id="other.1"
    )  # run.1 may begin beside this test
    with socket.create_server(("127.0.0.1", sockets.derived_port("other.1"))):
        ends = run(attempt)
    assert ends[0]["cause"]["code"] == "platform_fault"
    assert "is taken" in ends[0]["cause"]["message"]
    assert sockets.derived_port("other.1") != sockets.derived_port("other.2")


@pytest.mark.parametrize(
    "words", [("2", "a,b"), ("x", "a,b"), ("0", "../a"), ("0", "a=;b"), ("0", "a", "0;1")]
)
def test_words_that_name_no_nodes_start_nothing(tmp_path: Path, words: tuple[str, ...]) -> None:
    attempt = ranks(tmp_path)
    rank, nodes, devices = (*words, None)[:3]
    command = Installation(sys.executable).join(str(attempt.path), str(rank), str(nodes), "", devices)
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert found.returncode == 1
    assert found.stderr
    assert not (attempt.path / "nodes").exists()
