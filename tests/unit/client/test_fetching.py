"""Fetching an artifact: goes on where it was broken off, checks every piece, never writes elsewhere."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from tarmac import api
from tarmac.client.fetching import fetch, selected
from tarmac.client.resource_calls import ResourceCalls
from tarmac.model.errors import InvalidInput, Unavailable


class Pieces:
    """A server that has these pieces, and goes away after so many."""

    def __init__(self, *contents: bytes, after: int = 1000) -> None:
        self.held = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self.asked: list[str] = []
        self.after = after

    def artifact_piece(self, digest: str) -> bytes:
        if len(self.asked) >= self.after:
            raise Unavailable("the server went away")
        self.asked.append(digest)
        return self.held[digest]


def entry(path: str, *contents: bytes, kind: str = "file", **changes: Any) -> api.ArtifactEntry:
    told = {
        "path": path,
        "kind": kind,
        "mode": 0o640,
        "bytes": sum(map(len, contents)),
        "mtime_ns": 1_000_000_000,
        "pieces": [
            {"digest": hashlib.sha256(content).hexdigest(), "bytes": len(content)} for content in contents
        ],
        "target": "",
        "inside": False,
        **changes,
    }
    return msgspec.convert(told, api.ArtifactEntry)


def bring(server: Pieces, entries: list[api.ArtifactEntry], target: Path) -> None:
    fetch(cast(ResourceCalls, server), entries, target)


def test_it_goes_on_where_it_was_broken_off(tmp_path: Path) -> None:
    entries = [entry("a/big", b"one", b"two", b"three"), entry("small", b"x")]
    broken = Pieces(b"one", b"two", b"three", b"x", after=2)
    with pytest.raises(Unavailable):
        bring(broken, entries, tmp_path)
    assert not (tmp_path / "a/big").exists(), "a file stands under its name once it is whole"
    again = Pieces(b"one", b"two", b"three", b"x")
    bring(again, entries, tmp_path)
    assert len(again.asked) == 2
    assert (tmp_path / "a/big").read_bytes() == b"onetwothree"
    assert (tmp_path / "a/big").stat().st_mode & 0o777 == 0o640
    nothing_new = Pieces()
    bring(nothing_new, entries, tmp_path)
    assert nothing_new.asked == []


def test_a_damaged_piece_is_refused(tmp_path: Path) -> None:
    server = Pieces(b"good")
    server.held = dict.fromkeys(server.held, b"evil")
    with pytest.raises(Unavailable, match="damaged"):
        bring(server, [entry("file", b"good")], tmp_path)
    assert not (tmp_path / "file").exists()


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", "a//b", ""])
def test_nothing_is_written_elsewhere(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidInput, match="outside"):
        bring(Pieces(b"x"), [entry(path, b"x")], tmp_path / "target")


def test_nothing_is_written_through_a_link(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "a").symlink_to(tmp_path)
    with pytest.raises(InvalidInput, match="a link leads there"):
        bring(Pieces(b"x"), [entry("a/out", b"x")], target)
    assert not (tmp_path / "out").exists()


def test_links_into_the_artifact_work_wherever_it_lies(tmp_path: Path) -> None:
    link = entry("x/latest", kind="link", target="ck/1", inside=True)
    bring(Pieces(b"x"), [entry("ck/1/state", b"x"), link], tmp_path)
    assert (tmp_path / "x/latest/state").read_bytes() == b"x"
    assert not (tmp_path / "x/latest").readlink().is_absolute()


def test_a_part_of_it_is_chosen_by_its_path() -> None:
    entries = [entry("a", kind="directory"), entry("a/b", b"x"), entry("ab", b"y")]
    assert [item.path for item in selected(entries, "a/")] == ["a", "a/b"]
    with pytest.raises(InvalidInput, match="holds no 'c'"):
        selected(entries, "c")
