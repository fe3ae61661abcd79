"""Directories below an attempt's are listed, and nothing outside it is reached."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarmac.node.files.untrusted import list_inside


@pytest.fixture
def attempt(tmp_path: Path) -> Path:
    root = tmp_path / "attempt"
    (root / "work" / "sub").mkdir(parents=True)
    (root / "work" / "b.txt").write_text("12345")
    (root / "work" / "a").symlink_to(tmp_path)
    os.mkfifo(root / "work" / "pipe")
    (tmp_path / "secret").write_text("x")
    return root


def test_what_lies_there_is_listed_by_name(attempt: Path) -> None:
    found = list_inside(str(attempt), "work", limit=10) or []
    assert [entry[:2] for entry in found] == [
        ["a", "link"],
        ["b.txt", "file"],
        ["pipe", "other"],
        ["sub", "directory"],
    ]
    assert found[1][2] == 5
    assert len(list_inside(str(attempt), "work", limit=2) or []) == 2
    assert list_inside(str(attempt), "", limit=10) is not None


@pytest.mark.parametrize(
    "path", ["..", "work/..", "work/a", "work/a/attempt", "/etc", "work//sub", "work/b.txt", "no", "a\0"]
)
def test_nothing_outside_is_reached(attempt: Path, path: str) -> None:
    assert list_inside(str(attempt), path, limit=10) is None
