"""A disk of a node that is full: real agents, and a stand-in of Ray."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from engine_harness import Work, ended, running, started, submit
from ray_harness import RayHarness
from tarmac.engines.attempts.supervision import RunnerTimeouts
from tarmac.model.cluster import Node
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import CauseCode, Outcome

pytestmark = pytest.mark.timeout(400)

FULL = "is full"
DISK_MIB = 64


@pytest.fixture
def small(tmp_path: Path) -> Iterator[RayHarness]:
    """An engine over two nodes whose directory is on a small disk of its own."""
    far = tmp_path / "home/far"
    far.mkdir(parents=True)
    words = ("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(far))
    if shutil.which("mount") is None or subprocess.run(words, check=False, capture_output=True).returncode:
        pytest.skip("a disk of its own needs root")
    try:
        made = RayHarness(tmp_path / "home", fresh=True)
        yield made
        made.close()
    finally:
        subprocess.run(["umount", "-l", str(far)], check=True)


def offered(ray: RayHarness) -> Node:
    return ray.engine.nodes()[0]


def fill(directory: Path) -> Path:
    """Take all of the space that is left."""
    path = directory / "filling"
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 20))
    with suppress(OSError), path.open("ab", buffering=0) as file:
        while True:
            file.write(bytes(1 << 12))
    return path


def test_nothing_is_placed_on_a_full_disk_and_what_runs_there_goes_on(small: RayHarness) -> None:
    lasting = started(small, Work(lasts=True), run_id="lasting")
    filling = fill(small.home / "far")
    late = submit(small, Work(), run_id="late", on=(1,))
    seen = small.settle(late, ended)
    assert (seen.outcome, seen.cause and seen.cause.code) == (Outcome.LOST, CauseCode.PLATFORM_FAULT)
    assert seen.cause is not None
    assert seen.cause.message == f"node1: the disk of {small.home / 'far'} is full"
    small.wait(lambda: offered(small).state == "down")
    assert FULL in offered(small).reason
    assert small.settle(lasting, running).state is ObservedState.RUNNING
    filling.unlink()
    small.wait(lambda: offered(small).state == "up")
    assert offered(small).reason == ""
    again = submit(small, Work(), run_id="late", number=2, on=(1,))
    assert small.settle(again, ended).outcome is Outcome.COMPLETED
    small.engine.request_leave(lasting, LeaveRequest.STOP)
    assert small.settle(lasting, ended).outcome is Outcome.STOPPED


def test_an_attempt_whose_runner_finds_no_room_for_its_claim_is_lost(small: RayHarness) -> None:
    small.hang(patience=RunnerTimeouts(start_again_s=1.0, starts=2))
    attempt = submit(small, Work(), run_id="late", on=(1,))
    filling = fill(small.home / "far")
    seen = small.settle(attempt, ended)
    assert (seen.outcome, seen.cause and seen.cause.code) == (Outcome.LOST, CauseCode.PLATFORM_FAULT)
    assert seen.cause is not None
    assert FULL in seen.cause.message
    filling.unlink()
    assert small.settle(attempt, ended) == seen
