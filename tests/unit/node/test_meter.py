"""What workers use, as the process beside a runner measures it: real processes, GPUs of a stand-in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

import fake_nvml
from tarmac.node.processes.children import Children
from tarmac.node.processes.meter import Meter, Times, gpus_of

BOUND_S = 60.0
HELD_BYTES = 64 << 20

BUSY = f"""
import os
held = bytearray({HELD_BYTES})
if os.fork() == 0:  # shares all of that with its parent
    while True: pass
os.wait()
"""


@pytest.fixture
def busy() -> Iterator[int]:
    """A worker that holds memory, with a process below it that computes."""
    process = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
    yield process.pid
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def figures(path: Path, there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """What was measured, once it is so."""
    deadline = time.monotonic() + BOUND_S
    while True:
        found = json.loads(path.read_text()) if path.exists() else None
        if found is not None and there(found):
            return found
        assert time.monotonic() < deadline, found
        Event().wait(0.01)


def test_all_processes_of_a_worker_count_and_what_they_share_once(tmp_path: Path, busy: int) -> None:
    meter, children = Meter(str(tmp_path / "utilization"), Times(after_s=0.0, period_s=0.05)), Children()
    meter.begin([busy], [])
    meter.look(children)
    try:
        found = figures(tmp_path / "utilization", lambda each: bool(each["memory_bytes"] > HELD_BYTES))
        assert found["memory_bytes"] < 1.8 * HELD_BYTES
        assert figures(tmp_path / "utilization", lambda each: bool(each["cpus"] > 0.05))["cpus"] < 2.0
        assert found["gpus"] == []
        assert found["at"] <= time.time()
    finally:
        meter.end(children)
    assert children.aside == frozenset()


def test_workers_that_run_for_a_moment_are_not_measured(tmp_path: Path) -> None:
    meter, children = Meter(str(tmp_path / "utilization")), Children()
    meter.begin([os.getpid()], [])
    meter.look(children)
    assert meter.due is not None
    assert children.aside == frozenset()
    meter.end(children)
    assert meter.due is None


def test_gpus_that_answer_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, busy: int) -> None:
    driver = fake_nvml.install(tmp_path / "driver", monkeypatch)
    driver.say(3, lost=1)
    monkeypatch.chdir(tmp_path / "driver")
    code = (
        "import sys, time; sys.path[:0] = sys.argv[2:]\n"
        "from tarmac.node.processes.children import Children\n"
        "from tarmac.node.processes.meter import Meter, Times\n"
        "meter, children = Meter(sys.argv[1], Times(0.0, 0.05)), Children()\n"
        "meter.begin([1], [1, 2]); meter.look(children); sys.stdin.read(); meter.end(children)"
    )
    # In a process of its own, as the library is looked for where a process was started.
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "utilization"), *sys.path], stdin=subprocess.PIPE
    ) as runner:
        found = figures(tmp_path / "utilization", lambda each: bool(each["gpus"]))
        assert runner.stdin is not None
        runner.stdin.close()
    (gpu,) = found["gpus"]
    assert (gpu["index"], gpu["busy_percent"], gpu["used_bytes"]) == (2, 42, 3 << 30)
    assert gpu["total_bytes"] == 80 << 30


@pytest.mark.parametrize(
    ("visible", "numbers"),
    [("", []), ("0,1", [0, 1]), ("3", [3]), ("GPU-7f3a,2", [2]), ("NoDevFiles", [])],
)
def test_the_gpus_of_workers_are_those_that_they_see(visible: str, numbers: list[int]) -> None:
    assert gpus_of([{"CUDA_VISIBLE_DEVICES": visible}, {}]) == numbers
