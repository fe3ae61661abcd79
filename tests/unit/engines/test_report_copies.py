"""Copies of what attempts report at a host: what is new, and nothing that a run put in its place."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tarmac.engines.attempts.layout import Layout
from tarmac.engines.hosts.report_copies import FILES, ReportCopies
from tarmac.node.attempt.protocol import rank_name
from tarmac.node.host import changes
from tarmac.node.host.changes import Changes

RUN = "runs/r/attempts/1"
EVENTS = f"nodes/{rank_name(0)}/events.jsonl"


class Sites:
    """A host and a copies of it, both below one directory; `answers` are those that the host gave."""

    def __init__(self, directory: Path) -> None:
        self.far = directory / "far" / RUN
        self.near = directory / "near" / RUN
        self.copies = ReportCopies(
            Layout(directory / "far"), Layout(directory / "near"), files=(*FILES, "slurm-begun")
        )
        self.answers: list[dict[str, Any]] = []
        self.connect()

    def connect(self) -> None:
        """A new connection, whose far end knows nothing."""
        self._changes = Changes()

    def refresh(self, *, lose: bool = False) -> None:
        self.copies.refresh(["r.1"], self._losing if lose else self._ask, self._changes)

    def write(self, path: str, content: bytes) -> None:
        target = self.far / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)

    def _ask(self, **arguments: Any) -> Any:
        self.answers.append(self._changes.since(**arguments))
        return self.answers[-1]

    def _losing(self, **arguments: Any) -> Any:
        self._ask(**arguments)
        raise ConnectionError


@pytest.fixture
def sites(tmp_path: Path) -> Sites:
    made = Sites(tmp_path)
    made.write("attempt.json", b"{}")
    return made


def sent_bytes(sites: Sites) -> int:
    return sum(len(content) for _, _, content in sites.answers[-1]["attempts"][0]["files"])


def test_what_attempts_report_is_copied_and_then_what_is_new(sites: Sites) -> None:
    sites.write(EVENTS, b"one\n")
    sites.write("logs/main.0.0.log", b"a log stays there")
    sites.write("nodes/rank-0/work/events.jsonl", b"so does this")
    sites.refresh()
    found = sorted(str(path.relative_to(sites.near)) for path in sites.near.rglob("*") if path.is_file())
    assert found == ["attempt.json", EVENTS]

    sites.write(EVENTS, b"one\ntwo\n")
    sites.write("slurm-begun", b"7")
    sites.refresh()
    assert (sites.near / EVENTS).read_bytes() == b"one\ntwo\n"
    assert (sites.near / "slurm-begun").read_bytes() == b"7"
    assert sent_bytes(sites) == len(b"two\n7")
    sites.refresh()
    assert sites.answers[-1]["attempts"] == [{"files": [], "more": False}]


def test_a_heartbeat_goes_on_here(sites: Sites) -> None:
    beat = f"nodes/{rank_name(0)}/heartbeat"
    sites.write(beat, b"")
    sites.refresh()
    os.utime(sites.near / beat, (1, 1))
    sites.refresh()
    assert (sites.near / beat).stat().st_mtime == 1
    os.utime(sites.far / beat, (2, 2))
    sites.refresh()
    assert (sites.near / beat).stat().st_mtime > 2


def test_an_attempt_that_is_not_there_has_no_copy(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    sites.refresh()
    assert not sites.near.exists()


def test_after_an_answer_that_was_lost_all_comes_again(sites: Sites) -> None:
    sites.refresh()
    sites.write("slurm-begun", b"7")
    with pytest.raises(ConnectionError):
        sites.refresh(lose=True)
    sites.refresh()
    assert (sites.near / "slurm-begun").read_bytes() == b"7"


def test_over_a_new_connection_a_copy_that_is_right_stays(sites: Sites) -> None:
    """A view that has read half of it goes on there."""
    sites.write(EVENTS, b"one\n")
    sites.refresh()
    inode = (sites.near / EVENTS).stat().st_ino
    sites.connect()
    sites.write(EVENTS, b"one\ntwo\n")
    sites.refresh()
    assert (sites.near / EVENTS).read_bytes() == b"one\ntwo\n"
    assert (sites.near / EVENTS).stat().st_ino == inode


def test_a_report_that_was_written_anew_takes_the_place_of_the_copy(sites: Sites) -> None:
    sites.write(EVENTS, b"one\ntwo\nthree\n")
    sites.refresh()
    (sites.far / EVENTS).unlink()
    sites.write(EVENTS, b"other\n")
    sites.refresh()
    assert (sites.near / EVENTS).read_bytes() == b"other\n"
    (sites.far / EVENTS).unlink()
    sites.refresh()
    assert not (sites.near / EVENTS).exists()


def test_a_report_that_grew_a_lot_comes_in_steps_all_in_one_look(sites: Sites) -> None:
    sites.refresh()
    content = b"x" * 1023 + b"\n"
    sites.write(EVENTS, content * 2048)
    sites.refresh()
    assert (sites.near / EVENTS).stat().st_size == 2 << 20
    assert max(len(json.dumps(str(answer))) for answer in sites.answers) < 2 * changes.STEP_BYTES


@pytest.mark.parametrize(
    "put",
    [
        os.mkfifo,
        lambda path: path.symlink_to("/etc/hostname"),
        lambda path: path.mkdir(),
    ],
    ids=["fifo", "link", "directory"],
)
@pytest.mark.parametrize("path", [EVENTS, "ask", f"nodes/{rank_name(0)}/claim"])
def test_what_is_no_file_there_cannot_be_read_here(
    sites: Sites, path: str, put: Callable[[Path], None]
) -> None:
    (sites.far / path).parent.mkdir(parents=True, exist_ok=True)
    put(sites.far / path)
    sites.refresh()
    assert not (sites.near / path).is_file()
    sites.refresh()
    assert sites.answers[-1]["attempts"] == [{"files": [], "more": False}]


def test_a_giant_is_copied_up_to_a_limit(sites: Sites) -> None:
    for path in (EVENTS, "slurm-begun"):
        sites.write(path, b"")
        os.truncate(sites.far / path, 1 << 40)
    sites.refresh()
    assert (sites.near / EVENTS).stat().st_size == changes.LARGEST_BYTES
    sites.refresh()
    assert sites.answers[-1]["attempts"] == [{"files": [], "more": False}]


def test_a_directory_of_a_node_that_is_a_link_is_not_followed(sites: Sites, tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "claim").write_text("secret")
    (sites.far / "nodes").mkdir()
    (sites.far / "nodes" / rank_name(0)).symlink_to(tmp_path / "secret")
    sites.refresh()
    assert not (sites.near / "nodes").exists()


@pytest.mark.parametrize(
    "path", ["../../../../escaped", "/etc/escaped", "nodes/../escaped", "nodes/../../claim", "nodes//claim"]
)
def test_a_host_cannot_have_other_files_written(tmp_path: Path, path: str) -> None:
    copies = ReportCopies(Layout(tmp_path / "far"), Layout(tmp_path / "near"))
    answer = {
        "number": 1,
        "attempts": [{"files": [["attempt.json", 0, b"{}"], [path, 0, b"x"]], "more": False}],
    }
    copies.refresh(["r.1"], lambda **_: answer, object())
    files = [str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*") if each.is_file()]
    assert files == [f"near/{RUN}/attempt.json"]
