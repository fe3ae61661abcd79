"""Files that a run may have written: nothing waits, follows a link, reads without end, or believes."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.node.attempt.events import EventLog
from tarmac.node.files import untrusted

GIGABYTES = 2 << 30


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    (path.parent / "elsewhere").write_text('{"a": 1}')
    path.symlink_to("elsewhere")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        here = Path.cwd()
        os.chdir(path.parent)
        made.bind(path.name)
        os.chdir(here)


@pytest.mark.parametrize(
    "put",
    [_fifo, _link, _socket, Path.mkdir, lambda path: path.symlink_to("/dev/zero")],
    ids=["fifo", "link", "socket", "directory", "device"],
)
def test_only_regular_files_are_read_or_written(tmp_path: Path, put: Callable[[Path], None]) -> None:
    path = tmp_path / "file"
    put(path)
    for use in (
        lambda: untrusted.read_bytes(str(path), 10),
        lambda: untrusted.read_object(str(path)),
        lambda: untrusted.read_part(str(path), 0, 10),
        lambda: untrusted.append_text(str(path), "x"),
        lambda: untrusted.touch(str(path)),
        lambda: untrusted.Lines(str(path)).added(),
    ):
        with pytest.raises(OSError):  # noqa: PT011 - which one depends on what stands there
            use()
    assert untrusted.last_bytes(str(path), 10) == (b"", True)


def test_a_file_of_gigabytes_costs_a_step(tmp_path: Path) -> None:
    path = tmp_path / "sparse"
    path.write_bytes(b"")
    os.truncate(path, GIGABYTES)
    with pytest.raises(OSError, match="longer than"):
        untrusted.read_bytes(str(path), 100)
    lines = untrusted.Lines(str(path), limit_bytes=4 * untrusted.STEP_BYTES)
    assert lines.all_added(steps=3) == []
    assert lines.overlong
    assert untrusted.last_bytes(str(path), 10) == (bytes(10), False)


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "null", "nonsense", "{", "[" * 100_000, '{"a":' * 50_000, "\ud800", "1" * 5000],
    ids=range(10),
)
def test_what_is_no_object_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - each in its own words
        untrusted.parse_object(text.encode("utf-8", "surrogatepass"))


def test_lines_come_in_steps_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    written = [b"%d" % number for number in range(3 * untrusted.STEP_LINES)]
    path.write_bytes(b"\n".join(written) + b"\nunfinished")
    lines = untrusted.Lines(str(path))
    first = lines.added()
    assert len(first) == untrusted.STEP_LINES
    assert first + lines.all_added() == written
    with path.open("ab") as file:
        file.write(b" now\n")
    assert lines.added() == [b"unfinished now"]
    assert not lines.overlong


def test_a_line_too_long_is_passed_over_and_the_next_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\n" + b"x" * (5 * untrusted.LONGEST_LINE_BYTES) + b"\nb\n")
    lines = untrusted.Lines(str(path))
    assert lines.all_added() == [b"a", b"b"]
    assert lines.overlong


def test_a_file_that_was_cut_or_replaced_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\n")
    lines = untrusted.Lines(str(path))
    assert (lines.added(), lines.begun) == ([b"a", b"b"], 1)
    path.write_bytes(b"c\n")
    assert (lines.added(), lines.begun) == ([b"c"], 2)
    untrusted.replace(str(path), b"d\ne\n")
    assert (lines.added(), lines.begun) == ([b"d", b"e"], 3)


@pytest.mark.parametrize("put", [_fifo, _link, Path.touch], ids=["fifo", "link", "file"])
def test_a_file_of_ours_takes_the_place_of_whatever_is_there(
    tmp_path: Path, put: Callable[[Path], None]
) -> None:
    path = tmp_path / "file"
    put(path)
    untrusted.replace(str(path), b"ours")
    assert path.read_bytes() == b"ours"
    assert not path.is_symlink()


def _cut(path: Path) -> None:
    os.truncate(path, 0)


def _forge(path: Path) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"at": 1.0, "kind": "ended", "outcome": "completed"}) + "\n")


def _overwrite(path: Path) -> None:
    text = path.read_text()
    path.write_text(text.replace("claimed", "dancing"))


def _replace_by_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _replace_by_directory(path: Path) -> None:
    path.unlink()
    (path / "full").mkdir(parents=True)


@pytest.mark.parametrize(
    "harm",
    [_cut, _forge, _overwrite, _replace_by_fifo, _replace_by_directory, Path.unlink],
    ids=["cut", "forged", "overwritten", "fifo", "directory", "removed"],
)
def test_the_report_of_a_runner_ends_as_the_runner_wrote_it(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "events"
    log = EventLog(str(path))
    log.append("claimed", pid=7)
    log.append("running")
    assert log.flush()
    harm(path)
    log.append("ended", outcome="failed")
    assert log.finish()
    told = [json.loads(line) for line in path.read_text().splitlines()]
    assert [event["kind"] for event in told] == ["claimed", "running", "notice", "ended"]
    assert "written anew" in told[2]["text"]
    assert told[3]["outcome"] == "failed"
