"""Files of an attempt directory by name: nothing outside, no link, no device, no waiting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac.node.files.untrusted import read_inside


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    directory = tmp_path / "attempt"
    (directory / "work" / "sub").mkdir(parents=True)
    (directory / "work" / "file").write_bytes(b"inside")
    (tmp_path / "secret").write_bytes(b"outside")
    (directory / "work" / "link").symlink_to("../../secret")
    (directory / "work" / "inner").symlink_to("file")
    (directory / "work" / "up").symlink_to("../..")
    os.mkfifo(directory / "work" / "pipe")
    return directory


def test_a_regular_file_is_read(attempt: Path) -> None:
    assert read_inside(str(attempt), "work/file", offset=2, limit=3) == b"sid"
    assert read_inside(str(attempt), "work/file", offset=-2, limit=2) == b"de"
    assert read_inside(str(attempt), "work/file", offset=-50, limit=2) == b"in"
    assert read_inside(str(attempt), "work/file", offset=6, limit=10) == b""


@pytest.mark.parametrize(
    "path",
    [
        "work/link",
        "work/inner",
        "work/up/secret",
        "work/pipe",
        "work/sub",
        "work//file",
        "/etc/hostname",
        "work/./file",
        "work/../work/file",
        "../secret",
        "work/file/",
        "work/" + "x" * 300,
        "%2e%2e/secret",
        "work\\file",
    ],
)
def test_anything_else_is_not_there(attempt: Path, path: str) -> None:
    assert read_inside(str(attempt), path, offset=0, limit=100) is None
