"""Which files differ between two snapshots of code."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.errors import NotFound


class Snapshots:
    def __init__(self, place: Path) -> None:
        self.store = DirectoryCodeStore(place / "store")
        self._place = place
        self._count = 0

    def of(self, files: Mapping[str, str]) -> str:
        """The digest of a directory with these files; a text after -> is a link."""
        self._count += 1
        directory = self._place / f"code{self._count}"
        for name, text in files.items():
            path = directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(text[2:]) if text.startswith("->") else path.write_text(text)
        return self.store.snapshot(str(directory))

    def changes(self, before: str | None, after: str | None) -> list[tuple[str, str]]:
        return [(item.change, item.path) for item in self.store.changes(before, after)]


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(tmp_path)


def test_files_are_added_removed_and_changed(snapshots: Snapshots) -> None:
    before = snapshots.of({"same": "x", "sub/old": "1", "train.py": "lr = 1", "link": "->same"})
    after = snapshots.of({"same": "x", "new": "1", "train.py": "lr = 2", "link": "->new"})
    assert snapshots.changes(before, after) == [
        ("changed", "link"),
        ("added", "new"),
        ("removed", "sub/old"),
        ("changed", "train.py"),
    ]
    assert snapshots.changes(before, before) == []


def test_no_code_is_an_empty_tree(snapshots: Snapshots) -> None:
    some = snapshots.of({"a": "1"})
    assert snapshots.changes(None, some) == [("added", "a")]
    assert snapshots.changes(None, None) == []


def test_code_that_is_gone_is_said(snapshots: Snapshots) -> None:
    with pytest.raises(NotFound, match="no longer kept"):
        snapshots.changes(None, "0" * 64)
