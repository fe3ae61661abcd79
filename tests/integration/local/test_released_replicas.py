"""Replicas that end while others of their attempt go on: believed when nothing of them lives, not before."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from engine_harness import LocalHarness, make_launch, running
from tarmac.model.ports import Observation, ObservedState
from tarmac.node.attempt.document import Launch

LASTS = "exec sleep 3600"


def on_one_node(*scripts: str) -> Launch:
    """A launch whose replicas share a node, each with a script of its own."""
    launch = make_launch(("true",))
    (worker,) = launch.nodes[0].workers
    workers = tuple(
        worker._replace(replica=replica, argv=("bash", "-c", script), slots=(replica,), stop_on_failure=False)
        for replica, script in enumerate(scripts)
    )
    return launch._replace(nodes=(launch.nodes[0]._replace(workers=workers),))


def submitted(local: LocalHarness, launch: Launch) -> str:
    local.engine.submit(local.engine.render(launch))
    local._started.append(launch.attempt_id)
    return launch.attempt_id


def look(local: LocalHarness, attempt: str) -> Observation:
    return local.engine.observe([attempt])[attempt]


def has_released(*replicas: int):
    return lambda seen: {each.replica for each in seen.released} == set(replicas)


def told_ended(local: LocalHarness, attempt: str, replica: int):
    """Until the runner has said that the replica has ended."""
    return lambda _seen: any(
        worker.replica == replica and worker.ended_at is not None for worker in local.engine.workers(attempt)
    )


@pytest.mark.parametrize("code", [0, 3])
def test_a_replica_that_has_ended_is_released_while_its_peers_go_on(local: LocalHarness, code: int) -> None:
    attempt = submitted(local, on_one_node(f"exit {code}", LASTS, LASTS))
    seen = local.settle(attempt, has_released(0))
    assert seen.state in (ObservedState.STARTING, ObservedState.RUNNING)
    local.reopen()
    assert local.settle(attempt, has_released(0)).released == seen.released, "the next server sees the same"


def test_a_replica_alone_on_its_node_is_released_with_the_end_of_its_runner(local: LocalHarness) -> None:
    launch = make_launch(("true",), nodes=2, argvs={1: ("sleep", "3600")})
    attempt = submitted(local, launch)
    assert local.settle(attempt, has_released(0)).state is not ObservedState.ENDED


def test_what_a_replica_left_behind_keeps_its_slots(local: LocalHarness, tmp_path: Path) -> None:
    """Also where it has left the process group and the session of its worker."""
    left = tmp_path / "left"
    attempt = submitted(local, on_one_node(f"setsid sleep 3600 & echo $! > {left}; exit 0", "echo; " + LASTS))
    local.settle(attempt, told_ended(local, attempt, 0))
    assert not look(local, attempt).released

    def left_behind() -> list[int]:
        started = {worker.pid for worker in local.engine.workers(attempt)}
        found = [pid for pid in _pids_of(launch_token(local, attempt)) if pid not in started]
        return [pid for pid in found if _argv(pid)[:2] == ["sleep", "3600"]]

    local.settle(attempt, lambda _seen: bool(left_behind()))  # `setsid` becomes that a moment later
    (orphan,) = left_behind()
    os.kill(orphan, signal.SIGKILL)
    local.settle(attempt, has_released(0))


def test_a_worker_that_says_it_has_ended_is_not_believed(local: LocalHarness, tmp_path: Path) -> None:
    attempt = submitted(local, on_one_node(LASTS, LASTS))
    local.settle(attempt, running)
    events = next(tmp_path.rglob("events.jsonl"))
    line = {"kind": "worker_ended", "role": "main", "replica": 0, "index": 0, "exit_code": 0, "signal": None}
    with events.open("a") as file:
        file.write(json.dumps({"at": 1.0, **line}) + "\n")
    local.settle(attempt, told_ended(local, attempt, 0))
    assert not look(local, attempt).released


def launch_token(local: LocalHarness, attempt: str) -> str:
    return json.loads(local.engine.read(attempt, "attempt.json"))["token"]


def _pids_of(token: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (path / "environ").read_bytes():
                found.append(int(path.name))
        except OSError:
            continue
    return found


def _argv(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
