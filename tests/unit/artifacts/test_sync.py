"""What may become a version, and what never does (I14): half-written checkpoints, changing files, links."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tarmac.artifacts.versions.blobs import DirectoryBlobs
from tarmac.artifacts.versions.manifest import (
    Broken,
    Manifest,
    Version,
    check_path,
    from_bytes,
    parse_id,
    read_chunk,
    read_manifest,
    to_bytes,
    versions,
)
from tarmac.artifacts.versions.quiescence import finished, linked, scan
from tarmac.artifacts.versions.select_stable import Unstable
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.model.errors import Unavailable

LONG_AGO = time.time() - 3600


class Watched(DirectoryBlobs):
    """A store that counts what it is sent, and breaks off when a test says so."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.sent: list[str] = []
        self.before_put: Callable[[], None] = lambda: None

    def put(self, name: str, data: bytes) -> None:
        if name.startswith("blobs/"):
            self.before_put()
            self.sent.append(name)
        super().put(name, data)


@pytest.fixture
def blobs(tmp_path: Path) -> Watched:
    return Watched(tmp_path / "store")


def syncer(blobs: DirectoryBlobs, root: Path, kind: str = "checkpoint", **changes: object) -> Syncer:
    place = Place(
        run_id="r1", attempt=1, kind=kind, rank=0, root=str(root), seen_at=("/mnt/checkpoints", str(root))
    )
    return Syncer(blobs, place, **changes)  # type: ignore[arg-type]


def write(path: Path, text: str, *, at: float = LONG_AGO) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at, at))
    return path


def test_a_bigger_file_is_stored_in_pieces_of_the_size_of_its_place(root: Path, blobs: Watched) -> None:
    """An interface to a site may send less at once than a store takes."""
    write(root / "model", "0123456789")
    place = Place(
        run_id="r1", attempt=1, kind="lossy", rank=0, root=str(root), seen_at=(str(root),), piece_bytes=4
    )
    found = Syncer(blobs, place).sync()
    assert found is not None
    (model,) = [entry for entry in found.entries if entry.path == "model"]
    assert [read_chunk(blobs, chunk) for chunk in model.chunks] == [b"0123", b"4567", b"89"]


def paths(manifest: Manifest | None) -> list[str]:
    return [entry.path for entry in manifest.entries] if manifest is not None else []


def test_a_file_held_open_for_writing_is_no_part_of_a_version(root: Path, blobs: Watched) -> None:
    write(root / "epoch-1/model", "whole")
    write(root / "epoch-2/model", "half")
    with (root / "epoch-2/model").open("r+"):
        os.utime(root / "epoch-2/model", (LONG_AGO, LONG_AGO))
        assert paths(syncer(blobs, root).sync()) == ["epoch-1", "epoch-1/model"]
    assert "epoch-2/model" in paths(syncer(blobs, root).sync())


def test_a_file_written_again_in_place_makes_no_version_until_it_is_whole(root: Path, blobs: Watched) -> None:
    model = write(root / "model", "first")
    one = syncer(blobs, root)
    assert one.sync() is not None
    with model.open("w") as file:
        file.write("sec")
        file.flush()
        with pytest.raises(Unstable, match="model is being written"):
            one.sync()
        file.write("ond")
    made = one.sync()  # closed, and open nowhere: it is whole, however lately it was written
    assert made is not None
    assert one.restless, "another file may follow: soon, not after an interval"
    assert (made.size_bytes, [version.number for version in versions(blobs)]) == (6, [1, 2])


def test_a_log_that_only_grows_is_kept_as_far_as_it_goes_and_holds_up_nothing(
    root: Path, blobs: Watched
) -> None:
    log = write(root / "tb/events", "one\n")
    one = syncer(blobs, root)
    first = one.sync()
    assert first is not None
    write(root / "epoch-1/model", "whole")
    with log.open("a") as file:
        file.write("two\n")
        file.flush()
        second = one.sync()
    assert second is not None
    kept = {entry.path: entry for manifest in (first, second) for entry in manifest.entries}
    assert "epoch-1/model" in paths(second)
    assert kept["tb/events"].size_bytes == 8


@pytest.mark.parametrize("link", ["AtomicDirectory.latest_checkpoint", "net_rank_0.latest_checkpoint"])
def test_a_link_to_the_latest_says_what_is_whole(root: Path, blobs: Watched, link: str) -> None:
    """ISC's AtomicDirectory: what is numbered above the link's target is still being written."""
    stem = link.removesuffix(".latest_checkpoint")
    for number in (1, 2, 3):
        write(root / f"{stem}_checkpoint_{number}/state", "x", at=time.time())
    write(root / f"{stem}_checkpoint_4_force/state", "half", at=LONG_AGO)
    (root / link).symlink_to(f"/mnt/checkpoints/{stem}_checkpoint_3")
    made = syncer(blobs, root).sync()
    assert made is not None
    tops = {path.split("/")[0] for path in paths(made)}
    assert tops == {link, *(f"{stem}_checkpoint_{number}" for number in (1, 2, 3))}
    kept = next(entry for entry in made.entries if entry.kind == "link")
    assert (kept.target, kept.inside) == (f"{stem}_checkpoint_3", True)


def test_the_drafts_of_the_sdk_are_never_kept(root: Path, blobs: Watched) -> None:
    write(root / "step-5/state", "whole", at=time.time())
    write(root / ".unfinished-1.0.77.5/state", "half")
    (root / "latest").symlink_to("step-5")
    assert paths(syncer(blobs, root).sync()) == ["latest", "step-5", "step-5/state"]


@pytest.mark.parametrize("kind", ["checkpoint", "crud"])
def test_a_file_that_changes_while_it_is_read_makes_no_version(root: Path, blobs: Watched, kind: str) -> None:
    model = write(root / "model", "a" * 1000)
    blobs.before_put = lambda: write(model, "b" * 1000, at=LONG_AGO + 1) and None
    with pytest.raises(Unstable, match="changed while it was read"):
        syncer(blobs, root, kind).sync()
    assert versions(blobs) == []


def test_a_lossy_file_is_kept_as_far_as_it_was_read(root: Path, blobs: Watched) -> None:
    log = write(root / "log", "one\n")
    blobs.before_put = lambda: write(log, "one\ntwo\n") and None
    made = syncer(blobs, root, "lossy").sync()
    assert made is not None
    assert made.size_bytes == 4


def test_a_sync_broken_off_goes_on_without_sending_again(root: Path, blobs: Watched) -> None:
    for number in range(8):
        write(root / f"step-1/part{number}", str(number) * 100)

    def break_off() -> None:
        if len(blobs.sent) == 5:
            raise Unavailable("the store went away")

    blobs.before_put = break_off
    with pytest.raises(Unavailable):
        syncer(blobs, root, threads=1).sync()
    assert versions(blobs) == [], "nothing half can be seen"
    arrived = set(blobs.sent)
    blobs.sent, blobs.before_put = [], lambda: None
    assert syncer(blobs, root).sync() is not None
    assert not arrived & set(blobs.sent)
    assert len(blobs.sent) == 3


def test_only_what_changed_is_sent(root: Path, blobs: Watched) -> None:
    write(root / "a/one", "1")
    write(root / "a/two", "2")
    one = syncer(blobs, root)
    assert one.sync() is not None
    assert one.sync() is None
    write(root / "a/two", "3", at=LONG_AGO + 1)
    write(root / "b/copy", "1")
    blobs.sent = []
    assert one.sync() is not None
    assert len(blobs.sent) == 1


def test_what_was_placed_here_from_elsewhere_is_not_this_nodes_to_keep(root: Path, blobs: Watched) -> None:
    write(root / "model", "of rank 0")
    given = syncer(blobs, root).sync()
    write(root / "own", "of rank 1")
    place = Place(run_id="r1", attempt=2, kind="checkpoint", rank=1, root=str(root), seen_at=(str(root),))
    assert paths(Syncer(blobs, place, foreign=given).sync()) == ["own"]


def test_a_damaged_manifest_is_no_version(root: Path, blobs: Watched) -> None:
    write(root / "model", "x")
    made = syncer(blobs, root).sync()
    assert made is not None
    assert read_manifest(blobs, made.version) == made
    data = to_bytes(made)
    with pytest.raises(Broken):
        from_bytes(data.replace(b"model", b"mOdel"), made.version)
    with pytest.raises(Broken):
        from_bytes(data[:-10], made.version)
    with pytest.raises(Broken):
        from_bytes(data, Version(run_id="r1", kind="checkpoint", rank=0, number=2))


@pytest.mark.parametrize("path", ["", "/etc/passwd", "..", "a/../../b", "a//b", "a/./b", "a\0b"])
def test_a_path_that_leaves_the_artifact_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="outside"):
        check_path(path)


@pytest.mark.parametrize(
    ("text", "number", "rank"),
    [("r1.checkpoint.3", 3, 0), ("r1.checkpoint", 0, 0), ("r1.lossy.12.4", 12, 4)],
)
def test_an_id_names_a_version(text: str, number: int, rank: int) -> None:
    found = parse_id(text)
    assert found is not None
    assert (found.run_id, found.number, found.rank) == ("r1", number, rank)


@pytest.mark.parametrize("text", ["r1", "r1.1", "r1.model.3", "r1.checkpoint.0", "my run.checkpoint", ""])
def test_other_texts_are_no_ids(text: str) -> None:
    assert parse_id(text) is None


def test_a_number_at_a_names_end_alone_leaves_nothing_out(root: Path) -> None:
    """Without a link to the latest there is nothing that says what is whole."""
    write(root / "model_checkpoint_5/state", "x")
    found = scan(str(root))
    assert finished(found, seen_at=()) == found
    assert linked(found, seen_at=()) == set()
