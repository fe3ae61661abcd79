"""How attempts end, with real runners and real processes: success, failure, peers, continue, commands, setup."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attempts import Warm, cold_runner, warm_parent, worker, write_attempt


@pytest.fixture(scope="module")
def warm() -> Iterator[Warm]:
    with warm_parent() as parent:
        yield parent


def test_a_worker_that_exits_with_0_completes(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("echo out; echo err >&2; pwd")])
    assert warm.run(attempt) | {"at": 0} == {
        "at": 0,
        "kind": "ended",
        "outcome": "completed",
        "cause": None,
        "finished": False,
    }
    assert attempt.kinds() == ["claimed", "worker_started", "running", "worker_ended", "ended"]
    assert attempt.log() == f"out\nerr\n{attempt.node().work}\n"


def test_a_runner_in_a_process_of_its_own_does_the_same(tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [worker("exit 0")])
    assert cold_runner(attempt) == 0
    assert attempt.ended()["outcome"] == "completed"
