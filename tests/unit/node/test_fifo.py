"""Waking through FIFOs never waits and never fails."""

from __future__ import annotations

import os
from pathlib import Path

from tarmac.node.kernel import fifo


def test_a_ring_is_heard(tmp_path: Path) -> None:
    handle = fifo.listen(str(tmp_path / "wakeup"))
    fifo.ring(str(tmp_path / "wakeup"), b"news\n")
    assert os.read(handle, 100) == b"news\n"
    fifo.drain(handle)
    os.close(handle)


def test_nobody_listens(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "wakeup")
    fifo.ring(str(tmp_path / "wakeup"))
    fifo.ring(str(tmp_path / "missing"))


def test_a_full_wakeup_is_no_reason_to_wait(tmp_path: Path) -> None:
    handle = fifo.listen(str(tmp_path / "wakeup"))
    for _ in range(40):
        fifo.ring(str(tmp_path / "wakeup"), b"x" * 4096)
    fifo.drain(handle)
    fifo.ring(str(tmp_path / "wakeup"))
    assert os.read(handle, 100) == b"!"
    os.close(handle)


def test_where_there_can_be_no_fifo_nothing_is_heard(tmp_path: Path) -> None:
    assert fifo.listen(str(tmp_path / "missing" / "wakeup")) == -1


def test_a_file_that_a_run_put_in_place_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(1 << 20))
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert [fifo.listen(str(tmp_path / name)) for name in ("file", "link")] == [-1, -1]
