"""A store that a node does not see: requests through the relay, cut anywhere, and whom the store refuses."""

from __future__ import annotations

import hashlib
import json
import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from relayed import RelayedStore, relayed_store
from tarmac.artifacts.versions.blobs import Blobs, check_store
from tarmac.artifacts.versions.catalog import collect
from tarmac.artifacts.versions.manifest import (
    FILE,
    Chunk,
    Entry,
    Manifest,
    Version,
    latest,
    read_chunk,
    read_manifest,
    to_bytes,
    versions,
)
from tarmac.artifacts.versions.restore import fill
from tarmac.artifacts.versions.store_server import StoreServer
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.model.errors import Refused, Unavailable

MIB = 1 << 20


@pytest.fixture
def store(tmp_path: Path) -> Iterator[RelayedStore]:
    with relayed_store(tmp_path) as made:
        yield made


def syncer(blobs: Blobs, root: Path, attempt: int = 1) -> Syncer:
    place = Place(
        run_id="r1", attempt=attempt, kind="checkpoint", rank=0, root=str(root), seen_at=(str(root),)
    )
    return Syncer(blobs, place)


def tree(root: Path) -> dict[str, str]:
    files = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): name_of(path.read_bytes()) for path in files}


def assert_whole(store: RelayedStore) -> None:
    """Every version that there is can be read to its last byte."""
    for version in versions(store.blobs):
        for entry in read_manifest(store.blobs, version).entries:
            for chunk in entry.chunks:
                read_chunk(store.blobs, chunk)


def name_of(data: bytes) -> str:
    return Chunk(hashlib.sha256(data).hexdigest(), len(data)).name


# --- what a store does ----------------------------------------------------------------------------


def test_it_does_what_a_store_does(store: RelayedStore) -> None:
    blobs = store.at_node()
    check_store(blobs)
    small, large = b"small", os.urandom(3 * MIB + 7)
    assert not blobs.has(name_of(small))
    assert blobs.get(name_of(small)) is None
    for data in (b"", small, large):
        blobs.put(name_of(data), data)
        assert blobs.has(name_of(data))
        assert blobs.get(name_of(data)) == data == store.blobs.get(name_of(data))


def test_a_version_goes_there_and_comes_back(store: RelayedStore, root: Path, tmp_path: Path) -> None:
    (root / "state").mkdir()
    (root / "state/model").write_bytes(os.urandom(20 * MIB))
    (root / "empty").write_bytes(b"")
    (root / "note").write_text("small")
    assert syncer(store.at_node(), root).sync() is not None
    assert_whole(store)
    store.start(number=2)
    blobs = store.at_node("r1.2")
    newest = latest(blobs, "r1", "checkpoint", 0)
    assert newest is not None
    fill(blobs, [read_manifest(blobs, newest)], tmp_path / "back", seen_at="/mnt/checkpoints")
    assert tree(tmp_path / "back") == tree(root)
    assert not list(store.blobs.pieces("syncing")), "the claim of the sync was taken back"


def test_many_small_files_cost_few_calls_each(store: RelayedStore, root: Path) -> None:
    for number in range(200):
        (root / f"file-{number}").write_text(f"content {number}")
    assert syncer(store.at_node(), root).sync() is not None
    assert len(store.link.calls) <= 200 * 2 + 10


def test_a_large_file_is_never_in_memory_as_a_whole(store: RelayedStore, root: Path, tmp_path: Path) -> None:
    with (root / "model").open("wb") as file:
        for _ in range(12):
            file.write(os.urandom(8 * MIB))
    tracemalloc.start()
    try:
        made = syncer(store.at_node(), root).sync()
        assert made is not None
        fill(store.at_node(), [made], tmp_path / "back", seen_at="/mnt/checkpoints")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 90 * MIB, "four pieces of 8 MiB at a time, each also as it travels"
    assert tree(tmp_path / "back") == tree(root)


# --- cut anywhere ---------------------------------------------------------------------------------


@pytest.mark.parametrize("lose_answer", [False, True], ids=["request lost", "answer lost"])
def test_whatever_frame_is_lost_the_version_is_whole_or_absent_and_comes_in_the_end(
    tmp_path: Path, root: Path, lose_answer: bool
) -> None:
    (root / "model").write_bytes(os.urandom(100_000))
    number, lost = 0, 1
    while lost:  # until the last frame that a sync sends
        with relayed_store(tmp_path / f"{number}", socket=tmp_path / "relay.sock") as store:
            store.link.lose(number, answer=lose_answer)
            lost = sync_with_losses(store, root)
            assert len(versions(store.blobs)) == 1, "one version, not one more for a lost answer"
            lost += store.link.frames > number
        number += 1
    assert number > 7


def sync_with_losses(store: RelayedStore, root: Path) -> int:
    """Sync as the sidecar does, again after each failure; how many there were."""
    for failures in range(5):
        try:
            syncer(store.at_node(), root).sync()
        except Unavailable:
            assert_whole(store)
        else:
            assert_whole(store)
            return failures
    raise AssertionError("it never came through")


def test_what_reached_the_store_is_not_sent_again(store: RelayedStore, root: Path) -> None:
    for number in range(4):
        (root / f"part-{number}").write_bytes(os.urandom(2 * MIB))
    blobs = store.at_node()
    for path in sorted(root.iterdir())[:3]:
        blobs.put(name_of(path.read_bytes()), path.read_bytes())
    before = store.link.calls.count("put")
    assert syncer(blobs, root).sync() is not None
    assert store.link.calls.count("put") - before <= 2, "one file, and the claim of the sync"


def test_while_nobody_listens_the_store_is_down(tmp_path: Path) -> None:
    with relayed_store(tmp_path) as store:
        store.socket.unlink()
        with pytest.raises(Unavailable, match="cannot be reached through the server"):
            store.at_node().has("tarmac-artifacts")


def test_a_store_that_is_down_at_the_server_is_down_at_the_node(store: RelayedStore) -> None:
    (store.store / "blobs").write_text("in the way")
    with pytest.raises(Unavailable, match="the artifact store failed"):
        store.at_node().put(name_of(b"x"), b"x")


# --- one attempt counts ---------------------------------------------------------------------------


def test_a_late_writer_is_refused_and_the_store_stays_as_it_is(store: RelayedStore, root: Path) -> None:
    """The node of attempt 1 was cut off; attempt 2 began from its last version; then 1 comes back."""
    (root / "model").write_text("by attempt 1")
    first = syncer(store.at_node("r1.1"), root)
    assert first.sync() is not None
    store.start(number=2)
    second = store.at_node("r1.2")
    assert latest(second, "r1", "checkpoint", 0) is not None
    before = store.content()
    (root / "model").write_text("by attempt 1, when nobody counted on it any more")
    with pytest.raises(Refused, match=r"r1\.1 is not the live one"):
        first.sync()
    assert store.content() == before
    (root / "model").write_text("by attempt 2")
    made = syncer(second, root, attempt=2).sync()
    assert made is not None
    assert (made.version.number, made.attempt) == (2, 2)


def test_the_older_attempt_is_refused_from_the_first_request_of_the_newer_one_on(
    store: RelayedStore, root: Path
) -> None:
    (root / "model").write_text("by attempt 1")
    both = dict(store.live)
    store.start(number=2)
    store.live.update(both)  # whoever says which is the live one has not learned of the end of the first
    assert latest(store.at_node("r1.2"), "r1", "checkpoint", 0) is None
    with pytest.raises(Refused):
        syncer(store.at_node("r1.1"), root).sync()
    assert versions(store.blobs) == []


def test_an_attempt_that_ends_while_its_version_is_on_the_way_makes_none(
    store: RelayedStore, root: Path
) -> None:
    (root / "model").write_text("by attempt 1")

    def end_once_content_came(_operation: str) -> None:
        if (store.store / "blobs").exists():
            store.live.clear()

    store.link.before = end_once_content_came
    with pytest.raises(Refused):
        syncer(store.at_node(), root).sync()
    assert (store.store / "blobs").exists()
    assert versions(store.blobs) == []


def test_without_the_token_of_the_attempt_nothing_is_done(store: RelayedStore) -> None:
    store.live["r1.2"] = store.live.pop("r1.1")
    blobs = store.at_node("r1.1")
    for ask in (lambda: blobs.has("tarmac-artifacts"), lambda: blobs.put(name_of(b"x"), b"x")):
        with pytest.raises(Refused):
            ask()


# --- what an attempt may do -----------------------------------------------------------------------

OTHERS = "manifests/r2/checkpoint/0/000000001"


@pytest.mark.parametrize(
    "name",
    [
        "tarmac-artifacts",
        "../outside",
        "blobs/../../x",
        "blobs/ab/short",
        "syncing/r2.1.checkpoint.0",
        OTHERS,
    ],
)
def test_it_puts_and_removes_nothing_but_its_own(store: RelayedStore, name: str) -> None:
    before = store.content()
    for ask in (store.at_node().put, store.at_node().create):
        with pytest.raises(Refused):
            ask(name, b"content")
    with pytest.raises(Refused):
        store.at_node().remove(name)
    assert store.content() == before


@pytest.mark.parametrize(
    "name",
    [OTHERS, "manifests/r1/../0/000000001", "../outside", "manifests/r1/checkpoint/0/1", "/etc/passwd"],
)
def test_it_reads_no_versions_of_other_runs(store: RelayedStore, name: str) -> None:
    with pytest.raises(Refused):
        store.at_node().get(name)
    with pytest.raises(Refused):
        list(store.at_node().pieces("manifests/r2"))
    with pytest.raises(Refused):
        list(store.at_node().pieces("manifests/r1/../r2"))


def test_it_reads_the_versions_that_are_its_input(store: RelayedStore) -> None:
    store.blobs.create(OTHERS, b"a manifest")
    store.start(inputs=("r2.checkpoint.1",))
    assert store.at_node().get(OTHERS) == b"a manifest"


def test_a_piece_that_is_not_what_its_name_says_is_not_kept(store: RelayedStore) -> None:
    with pytest.raises(Refused):
        store.at_node().put(name_of(b"one"), b"another")
    with pytest.raises(Refused, match="more than"):
        store.at_node().put(name_of(bytes(9 * MIB)), bytes(9 * MIB))
    assert not store.blobs.has(name_of(b"one"))
    assert not [name for name in store.content() if ".draft" in name]


def test_what_changes_on_the_way_is_not_kept(store: RelayedStore) -> None:
    server = StoreServer(lambda: store.blobs, store.find_grant)
    sent, came = b"as it was sent", b"as it arrived."
    request = {"do": "put", "name": name_of(sent), "digest": hashlib.sha256(sent).hexdigest()}
    identity = {"attempt": "r1.1", "token": "token of r1.1"}
    answer, _ = server.answer({**request, **identity}, len(came), iter([came]))
    assert "its digest differs" in answer["down"], "it may be sent again"
    assert not store.blobs.has(name_of(sent))


def test_a_version_without_all_of_its_pieces_does_not_come_to_be(store: RelayedStore, root: Path) -> None:
    chunk = Chunk(hashlib.sha256(b"gone").hexdigest(), 4)
    entry = Entry(path="model", kind=FILE, size_bytes=4, chunks=(chunk,))
    version = Version(run_id="r1", kind="checkpoint", rank=0, number=1)
    manifest = Manifest(version=version, attempt=1, created_at=0.0, read_at=0.0, entries=(entry,))
    with pytest.raises(Unavailable, match="does not hold"):
        store.at_node().create(version.name, to_bytes(manifest))
    with pytest.raises(Refused, match="of attempt 7"):
        store.at_node().create(version.name, to_bytes(manifest._replace(attempt=7)))
    with pytest.raises(Refused):
        store.at_node().create(version.name, json.dumps({"format": 1}).encode())
    assert versions(store.blobs) == []


def test_nothing_is_cleared_up_while_a_node_syncs(
    store: RelayedStore,
) -> None:
    """The claim carries the time of the server: the clock of a node may be hours behind."""
    blobs = store.at_node()
    blobs.put("syncing/r1.1.checkpoint.0", b"12.000")
    claim = store.blobs.get("syncing/r1.1.checkpoint.0")
    assert claim is not None
    assert float(claim) > 1e9
    blobs.remove("syncing/r1.1.checkpoint.0")
    assert collect(store.blobs) == 0
