"""The runner's report survives a full disk: nothing is lost, nothing is out of order, no line is torn."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tarmac.node.attempt.events import EventLog


def kinds(path: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()]


def test_events_are_lines_and_news_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "news")
    news = os.open(tmp_path / "news", os.O_RDWR | os.O_NONBLOCK)
    log = EventLog(str(tmp_path / "events"), notify=str(tmp_path / "news"), attempt_id="run.1")
    assert log.flush(), "there is nothing to write"
    log.append("claimed", pid=7)
    log.append("running")
    assert log.flush()
    assert os.read(news, 100) == b"run.1\n"
    os.close(news)
    claimed = json.loads((tmp_path / "events").read_text().splitlines()[0])
    assert (claimed["kind"], claimed["pid"]) == ("claimed", 7)
    log.close()


def test_the_space_set_aside_is_given_back(tmp_path: Path) -> None:
    log = EventLog(str(tmp_path / "events"))
    log.append("claimed")
    log.flush()
    log.close()
    assert (tmp_path / "events").stat().st_blocks * 512 <= 4096


def test_what_a_full_disk_refuses_is_written_later(tmp_path: Path) -> None:
    path = tmp_path / "events"
    path.symlink_to("/dev/full")
    log = EventLog(str(path))
    log.append("claimed")
    assert not log.flush()
    log.append("running")
    assert not log.flush()
    path.unlink()
    log.append("ended")
    assert log.flush()
    assert kinds(path) == ["claimed", "running", "ended"]
    log.close()
