"""The room of logs: what is too long loses its middle, and nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tarmac.node.files.logroom import LogRoom, allocated_bytes, cut, cut_note

BLOCK = 4096


def written(path: Path, lines: int) -> bytes:
    text = b"".join(b"%015d\n" % number for number in range(lines))
    path.write_bytes(text)
    return text


def test_a_log_that_is_cut_keeps_its_ends_and_every_place(tmp_path: Path) -> None:
    log = tmp_path / "main.0.0.log"
    text = written(log, 100 * BLOCK // 16)
    cut(str(log), keep_bytes=5 * BLOCK + 3)
    note = json.loads(Path(cut_note(str(log))).read_text())
    assert (note["begin"], note["end"]) == (5 * BLOCK, 95 * BLOCK - 3)
    now = log.read_bytes()
    assert len(now) == len(text)
    assert now[: note["begin"]] == text[: note["begin"]]
    assert now[note["end"] :] == text[note["end"] :]
    assert allocated_bytes(str(log)) < 12 * BLOCK
    with log.open("ab") as file:
        file.write(b"more\n")
    assert log.read_bytes().endswith(b"more\n")


def test_a_log_that_is_cut_again_is_noted_as_a_whole(tmp_path: Path) -> None:
    log = tmp_path / "main.0.0.log"
    written(log, 100 * BLOCK // 16)
    cut(str(log), keep_bytes=2 * BLOCK)
    cut(str(log), keep_bytes=20 * BLOCK)
    note = json.loads(Path(cut_note(str(log))).read_text())
    assert (note["begin"], note["end"]) == (2 * BLOCK, 98 * BLOCK)


def test_logs_over_their_limit_are_cut_and_it_is_said_once(tmp_path: Path) -> None:
    logs = [tmp_path / f"main.{replica}.0.log" for replica in range(2)]
    written(logs[0], 200 * BLOCK // 16)
    small = written(logs[1], 10)
    said: list[str] = []
    room = LogRoom([str(log) for log in logs], limit_bytes=100 * BLOCK, say=said.append)
    room.look()
    assert sum(allocated_bytes(str(log)) for log in logs) < 100 * BLOCK
    assert logs[1].read_bytes() == small
    assert said == ["its logs on this node were longer than 400 KiB: the middle of long ones is left out"]


def test_logs_within_their_limit_and_logs_that_are_none_are_left_alone(tmp_path: Path) -> None:
    log, fifo = tmp_path / "main.0.0.log", tmp_path / "main.1.0.log"
    text = written(log, 10 * BLOCK // 16)
    os.mkfifo(fifo)
    said: list[str] = []
    LogRoom([str(log), str(fifo)], limit_bytes=100 * BLOCK, say=said.append).look()
    assert (log.read_bytes(), said) == (text, [])
