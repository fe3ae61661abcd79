"""The reserve: room for records on a disk that is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FULL_DISK = """
import os, subprocess, sys
from pathlib import Path
from tarmac.node.kernel import mounts, syscalls
home = Path(sys.argv[1])
sys.path.insert(0, sys.argv[2])
try:
    mounts.enter_own_view()
    syscalls.mount("small", str(home), "tmpfs", 0, "size=64m")
except OSError as error:
    print("not allowed:", error)
    raise SystemExit(0)
from attempts import wait_until
from histories import new_run
from tarmac.model.cluster import Drain
from tarmac.model.errors import StorageFull
from tarmac.store import open_store

store = open_store(f"sqlite:///{home}/tarmac.db")
for number in range(20):
    store.set_drained([f"node-{number}"], Drain())
hog = subprocess.Popen(["sh", "-c", "while :; do cat /dev/zero; done >> hog 2> /dev/null"], cwd=home)
try:
    wait_until(lambda: os.statvfs(home).f_bavail == 0 or None, "the disk does not get full")
    ACT
finally:
    hog.kill()
    hog.wait()
"""

STOPS = """for number in range(200):
        store.set_drained([f"node-{number}-" + "x" * 1000], Drain())
    print("written")"""

ADDS = """try:
        store.create_runs([new_run()])
        print("accepted")
    except StorageFull as error:
        print(error.message.partition(" is ")[2])"""


def test_records_are_written_while_another_program_takes_every_block(tmp_path: Path) -> None:
    """A run that fills the disk cannot keep the server from recording that it is to stop."""
    assert _on_full_disk(STOPS, tmp_path) == "written\n"


def test_a_new_run_is_refused_where_the_reserve_is_all_that_is_left(tmp_path: Path) -> None:
    assert _on_full_disk(ADDS, tmp_path) == "full: nothing was changed\n"


def _on_full_disk(act: str, place: Path) -> str:
    """What a program prints that mounts a small disk of its own, where it may, and has another fill it."""
    support = Path(__file__).parents[2] / "support"
    command = [sys.executable, "-c", FULL_DISK.replace("ACT", act), str(place), str(support)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if result.stdout.startswith("not allowed"):
        pytest.skip(f"this machine gives no small disk to fill: {result.stdout.strip()}")
    assert result.returncode == 0, result.stderr
    return result.stdout
