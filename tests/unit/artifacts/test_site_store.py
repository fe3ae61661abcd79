"""A store at a site and the server's own: versions fetched and sent, cut anywhere, and removed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Barrier, Event

import pytest

from tarmac.artifacts.versions.blobs import DirectoryBlobs, begin_store, check_store
from tarmac.artifacts.versions.manifest import (
    CHUNK_BYTES,
    Broken,
    Version,
    read_chunk,
    read_manifest,
    versions,
)
from tarmac.artifacts.versions.restore import fill
from tarmac.artifacts.versions.site_store import SiteStore
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.engines.hosts.host import Host, HostStoreFiles, local_host
from tarmac.model.errors import Unavailable

URL = "/home/ada/artifacts"
BOUND_S = 60.0


class CutFiles:
    """The files of a store, over a connection that is cut at the call of that number."""

    def __init__(self, files: HostStoreFiles) -> None:
        self._files = files
        self.calls: list[str] = []
        self.cut_at: int | None = None
        self.meeting: Barrier | None = None
        """Where reads of different chunks wait for one another."""

    def _call(self, what: str) -> None:
        self.calls.append(what)
        if self.cut_at is not None and len(self.calls) > self.cut_at:
            raise Unavailable("the connection is cut")

    def read(self, name: str, *, offset: int, limit: int) -> bytes | None:
        self._call("read")
        if self.meeting is not None and name.startswith("blobs/") and offset == 0:
            self.meeting.wait(BOUND_S)
        return self._files.read(name, offset=offset, limit=limit)

    def write(self, name: str, begin: int, content: bytes, *, last: bool) -> None:
        self._call("write")
        self._files.write(name, begin, content, last=last)

    def listing(self, prefix: str) -> Sequence[tuple[str, int, float]]:
        self._call("listing")
        return self._files.listing(prefix)

    def remove(self, names: Sequence[str]) -> None:
        self._call("remove")
        self._files.remove(names)


class Two:
    """The two stores; `far` is the one at the site, as the sidecars of its nodes have it."""

    def __init__(self, root: Path) -> None:
        host: Host = local_host(root / "site")
        self.root = root
        self.far = DirectoryBlobs(root / "site/artifacts")
        self.near = DirectoryBlobs(root / "near")
        self.files = CutFiles(HostStoreFiles(host, root / "site/artifacts"))
        self.ending = Event()
        self.site = self.open(URL)
        begin_store(self.near)
        self.site.begin()

    def open(self, url: str) -> SiteStore:
        return SiteStore(self.files, lambda: self.near, url=url, ending=self.ending)

    def save(self, *, run: str = "r1", near: bool = False, **files: bytes) -> Version:
        """The next version of a run, with these files beside those before."""
        directory = self.root / "work" / run
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            (directory / name).write_bytes(content)
        place = Place(run_id=run, attempt=1, kind="lossy", rank=0, root=str(directory), seen_at=())
        made = Syncer(self.near if near else self.far, place).sync()
        assert made is not None
        return made.version


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


def content(blobs: DirectoryBlobs, version: Version) -> dict[str, bytes]:
    """The files of a version, every byte of them checked."""
    entries = read_manifest(blobs, version).entries
    return {entry.path: b"".join(read_chunk(blobs, chunk) for chunk in entry.chunks) for entry in entries}


def test_a_store_there_is_one_that_nodes_find(two: Two) -> None:
    check_store(two.far)
    assert two.site.unfetched() == []


def test_versions_are_fetched_once_each(two: Two) -> None:
    big = os.urandom(CHUNK_BYTES + 3_000_000)
    first = two.save(small=b"1", big=big, empty=b"")
    second = two.save(small=b"2")
    other = two.save(run="r2", small=b"3")
    assert two.site.unfetched() == [first, second, other]
    assert two.site.unfetched("r1") == [first, second]
    for version in (second, first, other):
        two.site.fetch(version)
        assert content(two.near, version) == content(two.far, version)
    assert content(two.near, first) == {"small": b"1", "big": big, "empty": b""}
    assert two.site.unfetched() == []
    two.near.remove(first.name)
    assert two.site.unfetched() == [], "what is removed here does not come back"
    assert two.open("/elsewhere").unfetched() == [first, second, other], "another store has had nothing"


def test_a_version_that_is_cut_anywhere_is_whole_or_not_there(two: Two) -> None:
    big = os.urandom(2_500_000)
    version = two.save(big=big, small=b"s")
    two.files.calls = []
    two.site.fetch(version)
    whole = len(two.files.calls)
    for cut_at in range(whole):
        two.near = DirectoryBlobs(two.root / f"near-{cut_at}")
        begin_store(two.near)
        two.files.calls, two.files.cut_at = [], cut_at
        with pytest.raises(Unavailable):
            two.open(f"/{cut_at}").fetch(version)
        if two.near.has(version.name):
            assert content(two.near, version) == {"big": big, "small": b"s"}
    two.files.cut_at = None
    two.site.fetch(version)
    assert content(two.near, version) == {"big": big, "small": b"s"}


def test_chunks_are_under_way_together(two: Two) -> None:
    """One after the other, each would wait for the way there and back."""
    version = two.save(first=os.urandom(1000), second=os.urandom(1000))
    two.files.meeting = Barrier(2)
    two.site.fetch(version)
    two.files.meeting = None
    assert content(two.near, version) == content(two.far, version)


def test_a_piece_that_is_damaged_there_makes_no_version_here(two: Two) -> None:
    version = two.save(file=b"content")
    (piece,) = two.far.pieces("blobs")
    (two.root / "site/artifacts" / piece.name).write_bytes(b"other")
    with pytest.raises(Broken):
        two.site.fetch(version)
    assert versions(two.near) == []


def test_an_attempt_finds_its_inputs_and_the_newest_of_its_run_there(two: Two, tmp_path: Path) -> None:
    given = two.save(run="given", near=True, data=os.urandom(2_200_000))
    two.save(near=True, step=b"1")
    newest = two.save(near=True, step=b"2")
    two.site.send("r1", [given.id])
    assert versions(two.far) == sorted([given, newest])
    assert content(two.far, given) == content(two.near, given)
    fill(two.far, [read_manifest(two.far, newest)], tmp_path / "placed", seen_at="/placed")
    assert (tmp_path / "placed/step").read_bytes() == b"2"
    assert two.site.unfetched() == [], "it came from here"
    there = two.save(step=b"3")
    assert there.number == newest.number + 1
    two.files.calls = []
    two.site.send("r1", [given.id])
    assert "write" not in two.files.calls, "what is there is not sent again"


def test_nothing_is_sent_for_a_run_that_begins_with_nothing(two: Two) -> None:
    two.files.calls = []
    two.site.send("r1", [])
    assert two.files.calls == []
    two.site.send("r1", ["gone.checkpoint.4"])
    assert versions(two.far) == []


def test_sending_that_is_cut_leaves_whole_versions_alone(two: Two) -> None:
    given = two.save(run="given", near=True, data=os.urandom(2_200_000), more=b"more")
    cuts = 0
    while not two.far.has(given.name):
        two.files.calls, two.files.cut_at = [], cuts
        with suppress(Unavailable):  # what arrived is not sent again
            two.site.send("r1", [given.id])
        cuts += 1
    assert cuts > 5
    assert content(two.far, given) == content(two.near, given)


def test_what_is_removed_here_is_removed_there(two: Two) -> None:
    first, second, third = (two.save(step=str(number).encode()) for number in range(3))
    for version in (first, second):
        two.site.fetch(version)
        two.near.remove(version.name)
    assert two.site.clear(inputs={second.id}, old=[]) == 2, "a version and its piece"
    assert versions(two.far) == [second, third], "what a run starts from stays, and what was never fetched"
    assert two.site.unfetched() == [third]
    two.site.clear(inputs=(), old=[third])
    assert versions(two.far) == []
    assert list(two.far.pieces("blobs")) == list(two.far.pieces("fetched")) == []


def test_nothing_is_removed_there_while_the_store_here_is_gone(two: Two) -> None:
    version = two.save(step=b"1")
    two.site.fetch(version)
    (two.root / "near").rename(two.root / "unmounted")
    with pytest.raises(Unavailable):
        two.site.clear(inputs=(), old=[])
    assert versions(two.far) == [version]
    two.near = DirectoryBlobs(two.root / "new")
    begin_store(two.near)
    two.open("/new").clear(inputs=(), old=[])
    assert versions(two.far) == [version], "another store has had nothing of it"


def test_a_run_is_removed_there_with_its_marks(two: Two) -> None:
    kept, gone = two.save(run="r2", step=b"1"), two.save(step=b"2")
    for version in (kept, gone):
        two.site.fetch(version)
    two.site.remove("r1")
    two.site.remove("r1")
    assert versions(two.far) == [kept]
    assert len(list(two.far.pieces("fetched"))) == 1


def test_a_server_that_leaves_ends_what_is_under_way(two: Two) -> None:
    version = two.save(step=b"1")
    two.ending.set()
    with pytest.raises(Unavailable):
        two.site.fetch(version)
    assert versions(two.near) == []
