"""Every kind of artifact store keeps the same promises: a directory, and a real S3 API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from s3 import BUCKET, CREDENTIALS, Line, s3_server
from tarmac.artifacts.remote import open_blobs
from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.catalog import collect
from tarmac.artifacts.versions.manifest import latest, versions
from tarmac.artifacts.versions.restore import fill
from tarmac.artifacts.versions.select_stable import Ending
from tarmac.artifacts.versions.store_lock import collecting, syncing
from tarmac.artifacts.versions.sync import Place, Syncer
from tarmac.model.errors import InvalidInput, Unavailable


@pytest.fixture(scope="module")
def line() -> Iterator[Line]:
    with s3_server() as made:
        yield made


@pytest.fixture(params=["directory", "s3"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blobs:
    if request.param == "directory":
        return open_blobs(str(tmp_path / "store"))
    made: Line = request.getfixturevalue("line")
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": made.url}.items():
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    return open_blobs(f"s3://{BUCKET}/{tmp_path.name}")


def test_a_store_keeps_its_promises(blobs: Blobs) -> None:
    assert blobs.get("a/b") is None
    assert not blobs.has("a/b")
    assert list(blobs.pieces("a")) == []
    blobs.put("a/b", b"one")
    blobs.put("a/b", b"other")
    assert blobs.get("a/b") == b"other"
    assert blobs.has("a/b")
    assert not blobs.has("a"), "a prefix is no name"
    assert not blobs.create("a/b", b"third"), "the name is taken"
    assert blobs.create("a/c", b"")
    blobs.put("ab/d", b"d")
    assert sorted((held.name, held.size_bytes) for held in blobs.pieces("a")) == [("a/b", 5), ("a/c", 0)]
    blobs.remove("a/b")
    blobs.remove("a/b")
    assert blobs.get("a/b") is None


def test_a_tree_goes_through_a_store_and_comes_back(blobs: Blobs, tmp_path: Path) -> None:
    """Files of several pieces, modes, times, links; twice the same is one version, and sent once."""
    root = tmp_path / "checkpoint"
    (root / "run/deep").mkdir(parents=True)
    (root / "run/big").write_bytes(bytes(range(256)) * 80_000)  # 20 MB: three pieces
    (root / "run/deep/script").write_text("#!/bin/sh\n")
    (root / "run/deep/script").chmod(0o755)
    (root / "empty").touch()
    (root / "AtomicDirectory.latest_checkpoint").symlink_to("/mnt/checkpoints/run")
    (root / "elsewhere").symlink_to("/etc/hostname")
    place = Place(
        run_id="r1", attempt=1, kind="checkpoint", rank=0, root=str(root), seen_at=("/mnt/checkpoints",)
    )
    made = Syncer(blobs, place).sync(Ending(at=0.0, clean=True))
    assert made is not None
    assert made.version.id == "r1.checkpoint.1"
    assert Syncer(blobs, place).sync(Ending(at=0.0, clean=True)) is None, "nothing changed"
    assert latest(blobs, "r1", "checkpoint", 0) == made.version
    again = tmp_path / "elsewhere"
    fill(blobs, [made], again, seen_at="/mnt/checkpoints")
    assert (again / "run/big").read_bytes() == (root / "run/big").read_bytes()
    assert (again / "run/deep/script").stat().st_mode & 0o777 == 0o755
    assert (again / "run/big").stat().st_mtime_ns == (root / "run/big").stat().st_mtime_ns
    assert (again / "AtomicDirectory.latest_checkpoint").readlink() == Path("/mnt/checkpoints/run")
    assert (again / "elsewhere").readlink() == Path("/etc/hostname")
    assert len(list(blobs.pieces("blobs"))) == 3, "the first two pieces of the file are equal"


def test_what_no_version_needs_is_cleared_up_and_nothing_else(blobs: Blobs, tmp_path: Path) -> None:
    root = tmp_path / "crud"
    root.mkdir()
    (root / "file").write_text("first")
    place = Place(run_id="r2", attempt=1, kind="crud", rank=0, root=str(root), seen_at=(str(root),))
    first = Syncer(blobs, place).sync()
    (root / "file").write_text("second")
    second = Syncer(blobs, place).sync()
    assert first is not None
    assert second is not None
    assert collect(blobs) == 0
    blobs.remove(first.version.name)
    assert collect(blobs) == 1
    assert versions(blobs, "r2") == [second.version]
    fill(blobs, [second], tmp_path / "again", seen_at="/x")
    assert (tmp_path / "again/file").read_text() == "second"


def test_syncs_and_clearing_up_keep_out_of_each_others_way(blobs: Blobs) -> None:
    with syncing(blobs, "r1"), collecting(blobs, patience_s=0.0) as alone:
        assert not alone
    with collecting(blobs) as alone:
        assert alone
        with collecting(blobs) as another:
            assert not another


def test_a_store_out_of_reach_is_unavailable_and_comes_back(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": line.url}.items():
        monkeypatch.setenv(name, value)
    blobs = open_blobs(f"s3://{BUCKET}/gone")
    blobs.put("a", b"1")
    line.cut()
    try:
        with pytest.raises(Unavailable, match="artifact store failed"):
            blobs.put("b", b"2")
    finally:
        line.mend()
    assert blobs.get("a") == b"1"
    assert blobs.get("b") is None


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("relative/path", "absolute path"),
        ("nosuch://bucket/x", "cannot be reached"),
        ("s3://key:secret@bucket/x", "user or password"),
    ],
)
def test_what_can_be_no_store_is_refused(url: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        open_blobs(url)
    assert "secret" not in str(refused.value)
