"""The reserve: room for records on a disk that is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tarmac.store.reserve import Reserve

FULL = """
import os, sys
from pathlib import Path
from tarmac.node.kernel import mounts, syscalls
home = Path(sys.argv[1])
try:
    mounts.enter_own_view()
    syscalls.mount("small", str(home), "tmpfs", 0, "size=16m")
except OSError as error:
    print("not allowed:", error)
    raise SystemExit(0)
from tarmac.model.cluster import Drain
from tarmac.model.errors import StorageFull
from tarmac.store import open_store
from tarmac.store.reserve import Reserve

def full():
    with open(home / "hog", "ab", buffering=0) as hog:
        for size in (1 << 16, 1 << 12):
            try:
                while True:
                    hog.write(bytes(size))
            except OSError:
                pass

store = open_store(f"sqlite:///{home}/tarmac.db")
if sys.argv[2] == "reserve":
    Reserve(home / "reserve").make()
full()
try:
    for number in range(400):
        store.set_drained([f"node-{number}-" + "x" * 1000], Drain())
    print("written")
except StorageFull:
    print("full after some" if number else "full")
"""


def test_pieces_are_made_given_up_and_made_again(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", piece_bytes=8192, pieces=3)
    reserve.make()
    pieces = sorted((tmp_path / "reserve").iterdir())
    assert [piece.stat().st_blocks * 512 >= 8192 for piece in pieces] == [True] * 3
    assert [reserve.give_up() for _ in range(4)] == [True, True, True, False]
    reserve.make()
    assert len(list((tmp_path / "reserve").iterdir())) == 3


def test_a_disk_with_room_is_left_alone(tmp_path: Path) -> None:
    Reserve(tmp_path / "reserve").look()
    assert not (tmp_path / "reserve").exists()


@pytest.mark.parametrize(("reserve", "outcome"), [("none", "full"), ("reserve", "written")])
def test_on_a_full_disk_the_reserve_takes_the_records(tmp_path: Path, reserve: str, outcome: str) -> None:
    command = [sys.executable, "-c", FULL, str(tmp_path), reserve]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if result.stdout.startswith("not allowed"):
        pytest.skip(f"this machine gives no small disk to fill: {result.stdout.strip()}")
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(outcome)
