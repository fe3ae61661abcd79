"""The reports of a run that wrote any amount of anything: the newest ones, after a bounded amount of work."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from actors import ADA
from histories import attempt_of, new_run
from tarmac.control.service import ControlPlane
from tarmac.model.errors import NotFound
from tarmac.model.run import Attempt
from tarmac.node.files.masking import NO_SECRETS, Mask
from tarmac.node.files.untrusted import read_inside
from tarmac.server.logs.reports import reports_of

FLOOD_BYTES = 40 << 20
LAST = b'{"at": 9, "step": 900, "metrics": {"loss": 0.5}}\n'


class Files:
    """A control plane whose attempts' files are real ones; it counts what is read of them."""

    def __init__(self, root: Path, attempts: int = 1) -> None:
        self.run = new_run().run
        self.root = root
        self.numbers = range(1, attempts + 1)
        self.read_bytes = 0

    def attempts(self, *_: object) -> list[Attempt]:
        return [attempt_of(self.run, number, node="n1") for number in self.numbers]

    def read(self, _actor: object, attempt: str, path: str, offset: int, limit: int) -> bytes:
        found = read_inside(str(self.root / attempt), path, offset=offset, limit=limit)
        if found is None:
            raise NotFound(path)
        self.read_bytes += len(found)
        return found

    def file(self, number: int = 1) -> Path:
        path = self.root / f"r1.{number}" / "nodes" / "n1" / "reports.jsonl"
        path.parent.mkdir(parents=True)
        return path


def reported(files: Files, mask: Mask = NO_SECRETS, limit: int | None = None) -> tuple[list[object], bool]:
    plane = cast(ControlPlane, files)
    found, is_cut = reports_of(plane, ADA, files.run, mask, limit=limit)
    return [report.step for report in found], is_cut


def _usual() -> bytes:
    report = {
        "at": 1.5,
        "rank": 0,
        "step": 5,
        "group": "training",
        "progress": 0.5,
        "metrics": {"loss": 0.25},
    }
    return json.dumps(report).encode() + b"\n"


FLOODS = {
    "reports": _usual(),
    "line ends": b"\n",
    "no JSON": b"{\n",
    "short reports": b'{"at":1}\n',
    "texts": json.dumps({"at": 1, "metrics": {str(n): f"text {n}" for n in range(4000)}}).encode() + b"\n",
    "what looks like keys": json.dumps({"at": 1, "metrics": {"a": "token=abc " * 9000}}).encode() + b"\n",
    "nested": b"{" + b'"a":{' * 20_000 + b"\n",
    "one line": b"x",
}


@pytest.mark.parametrize("unit", FLOODS.values(), ids=FLOODS)
def test_a_flood_of_reports_is_answered_in_short(tmp_path: Path, unit: bytes) -> None:
    files = Files(tmp_path)
    files.file().write_bytes(unit * (FLOOD_BYTES // len(unit)) + b"\n" + LAST)
    began = time.thread_time()
    steps, is_cut = reported(files, Mask(["a secret of many words"]))
    assert time.thread_time() - began < 1.0
    assert (steps[-1], is_cut) == (900, True)
    assert files.read_bytes < 2 << 20


def test_a_hole_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    files = Files(tmp_path)
    path = files.file()
    path.write_bytes(LAST)
    os.truncate(path, 2 << 30)
    with path.open("ab") as file:
        file.write(b"\n" + LAST)
    assert reported(files) == ([900], True)
    assert files.read_bytes < 2 << 20


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    (path.parent / "other").write_bytes(LAST)
    path.symlink_to(path.parent / "other")


def _nothing(_path: Path) -> None:
    pass


@pytest.mark.parametrize("put", [_fifo, _link, Path.mkdir, _nothing])
def test_what_is_no_file_has_no_reports(tmp_path: Path, put: Callable[[Path], None]) -> None:
    files = Files(tmp_path)
    put(files.file())
    assert reported(files) == ([], False)


def test_the_newest_attempts_come_first_and_nothing_is_cut_where_all_is_read(tmp_path: Path) -> None:
    files = Files(tmp_path, attempts=3)
    for number in files.numbers:
        files.file(number).write_bytes(b"".join(_steps(number)))
    assert reported(files) == ([10, 11, 20, 21, 30, 31], False)
    assert reported(files, limit=2) == ([30, 31], False)
    with (tmp_path / "r1.2" / "nodes" / "n1" / "reports.jsonl").open("ab") as file:
        file.write(_usual() * 20_000)
    steps, is_cut = reported(files)
    assert (steps[0], steps[-3:], is_cut) == (5, [5, 30, 31], True)


def _steps(number: int) -> Iterator[bytes]:
    for step in range(2):
        yield json.dumps({"at": 1 + step, "step": 10 * number + step}).encode() + b"\n"
