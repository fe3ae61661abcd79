"""Archives as code (C7): what comes out of good ones, and that hostile ones leave nothing anywhere."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_trees import copied, nothing_kept
from examples import examples
from tarmac.artifacts.code.archives import read_archive
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import LocalDirectory

Packed = Callable[[bytes], bytes]

COMPRESSED: dict[str, Packed] = {
    ".tar": lambda data: data,
    ".tar.gz": gzip.compress,
    ".tgz": lambda data: gzip.compress(data[:700]) + gzip.compress(data[700:]),
    ".tar.bz2": bz2.compress,
    ".tar.xz": lambda data: lzma.compress(data[:700]) + lzma.compress(data[700:]),
    ".txz": lambda data: lzma.compress(data) + b"\0" * 8,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home" / "code"


@pytest.fixture
def store(root: Path) -> DirectoryCodeStore:
    return DirectoryCodeStore(root, limit_bytes=200 << 20)


def tar_of(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def tar_file(name: str, content: bytes = b"x", mode: int = 0o644) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(content), mode, 1_700_000_000
    return info, content


def tar_other(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, 0o755
    return info, b""


def zip_of(*members: tuple[str, bytes, int], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Each with its name, its content, and the mode that Unix gives it (0: none)."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, content, mode in members:
            info = zipfile.ZipInfo("placeholder", (2023, 11, 14, 22, 13, 20))
            info.filename = info.orig_filename = name
            info.create_system, info.compress_type = 3 if mode else 0, compression
            info.external_attr = mode << 16
            archive.writestr(info, content)
    return made.getvalue()


@pytest.mark.parametrize("ending", COMPRESSED)
def test_a_tar_becomes_the_tree_it_holds(
    tmp_path: Path, root: Path, store: DirectoryCodeStore, ending: str
) -> None:
    members = [
        tar_other("./", tarfile.DIRTYPE),
        tar_file("./bin/go", b"#!/bin/sh\n", 0o755),
        tar_other("bin/", tarfile.DIRTYPE),
        tar_other("latest", tarfile.SYMTYPE, "bin/go"),
        tar_other("empty", tarfile.DIRTYPE),
        tar_file("data/" + "long" * 60 + "/ü", b"y" * 3000),
        tar_file("nothing", b""),
    ]
    archive = tmp_path / f"project{ending}"
    archive.write_bytes(COMPRESSED[ending](tar_of(*members)))
    tree = copied(root, store.snapshot(str(archive)))
    assert (tree / "bin" / "go").read_bytes() == b"#!/bin/sh\n"
    assert stat.S_IMODE((tree / "bin" / "go").stat().st_mode) == 0o755
    assert (tree / "bin" / "go").stat().st_mtime == 1_700_000_000
    assert (tree / "latest").readlink() == Path("bin/go")
    assert (tree / "empty").is_dir()
    assert (tree / "nothing").read_bytes() == b""
    assert (tree / "data" / ("long" * 60) / "ü").read_bytes() == b"y" * 3000


def test_a_zip_becomes_the_tree_it_holds_with_its_modes_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    """C7: mode bits come from external_attr, or `./run.sh` would not run."""
    archive = tmp_path / "project.zip"
    archive.write_bytes(
        zip_of(
            ("run.sh", b"#!/bin/sh\n", stat.S_IFREG | 0o755),
            ("latest", b"run.sh", stat.S_IFLNK | 0o777),
            ("empty/", b"", stat.S_IFDIR | 0o755),
            ("plain/ü.py", b"1", 0),
        )
    )
    tree = copied(root, store.snapshot(str(archive)))
    assert os.access(tree / "run.sh", os.X_OK)
    assert (tree / "latest").readlink() == Path("run.sh")
    assert (tree / "empty").is_dir()
    assert stat.S_IMODE((tree / "plain" / "ü.py").stat().st_mode) == 0o644
    assert (tree / "run.sh").stat().st_mtime == time.mktime((2023, 11, 14, 22, 13, 20, 0, 0, -1))


def test_an_archive_and_its_directory_are_the_same_snapshot(
    tmp_path: Path, store: DirectoryCodeStore
) -> None:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "src" / "a.py").write_text("1")
    for path in (project / "src", project / "src" / "a.py"):
        path.chmod(0o755)
    archive = tmp_path / "project.tar.gz"
    with tarfile.open(archive, "w:gz") as made:
        made.add(project, arcname=".")
    assert store.snapshot(str(archive)) == store.snapshot(str(project))


def test_what_is_excluded_of_an_archive_stays_behind(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    archive = tmp_path / "project.zip"
    archive.write_bytes(zip_of(("data/a.bin", b"x", 0), ("data/a.py", b"x", 0), ("old/b.py", b"x", 0)))
    code = LocalDirectory(path=str(archive), exclude=("*.bin", "old/"))
    tree = copied(root, store.snapshot(code))
    assert [path.name for path in tree.rglob("*.*")] == ["a.py"]


def test_a_directory_that_is_called_like_an_archive_is_a_directory(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    directory = tmp_path / "project.zip"
    directory.mkdir()
    (directory / "a.py").touch()
    assert (copied(root, store.snapshot(str(directory))) / "a.py").exists()


HOSTILE_TARS: Sequence[tuple[str, bytes, str]] = [
    ("up", tar_of(tar_file("../evil")), "leads out"),
    ("up inside", tar_of(tar_file("a/../../evil")), "leads out"),
    ("absolute", tar_of(tar_file("/tmp/evil")), "absolute name"),
    ("drive", tar_of(tar_file("C:/evil")), "names a drive"),
    ("link up", tar_of(tar_other("l", tarfile.SYMTYPE, "../evil")), "leaves the directory"),
    ("link absolute", tar_of(tar_other("l", tarfile.SYMTYPE, "/etc")), "leaves the directory"),
    (
        "chain",
        tar_of(
            tar_other("d", tarfile.DIRTYPE),
            tar_other("d/up", tarfile.SYMTYPE, ".."),
            tar_other("l", tarfile.SYMTYPE, "d/up/../evil"),
        ),
        "leaves the directory",
    ),
    ("through a link", tar_of(tar_other("l", tarfile.SYMTYPE, "d"), tar_file("l/evil")), "which is a link"),
    ("link replaced", tar_of(tar_other("l", tarfile.SYMTYPE, "d"), tar_file("l")), "there twice"),
    ("hard link", tar_of(tar_file("a"), tar_other("l", tarfile.LNKTYPE, "a")), "hard link"),
    ("hard link out", tar_of(tar_other("l", tarfile.LNKTYPE, "/etc/passwd")), "hard link"),
    ("character device", tar_of(tar_other("c", tarfile.CHRTYPE)), "neither a file"),
    ("block device", tar_of(tar_other("b", tarfile.BLKTYPE)), "neither a file"),
    ("fifo", tar_of(tar_other("p", tarfile.FIFOTYPE)), "neither a file"),
    ("twice", tar_of(tar_file("a"), tar_file("a", b"y")), "there twice"),
    ("file and directory", tar_of(tar_file("a"), tar_file("a/b")), "which is a file"),
    ("directory and file", tar_of(tar_file("a/b"), tar_file("a")), "there|which is a file"),
    ("empty part", tar_of(tar_file("a//b")), "not a plain name"),
    ("deep", tar_of(tar_file("/".join("d" * 200))), "deeper than"),
    ("long name", tar_of(tar_file("n" * 300)), "longer than a name"),
    ("cut", tar_of(tar_file("a", b"x" * 5000))[:2000], "damaged"),
    ("garbage", b"this is no archive at all" * 100, "damaged"),
]


@pytest.mark.parametrize(("content", "why"), [pytest.param(*case[1:], id=case[0]) for case in HOSTILE_TARS])
@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
def test_a_hostile_tar_is_refused_and_nothing_is_written_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore, content: bytes, why: str, ending: str
) -> None:
    archive = tmp_path / f"evil{ending}"
    archive.write_bytes(COMPRESSED[ending](content))
    refused_whole(store, archive, why, root)


HOSTILE_ZIPS: Sequence[tuple[str, bytes, str]] = [
    ("up", zip_of(("../evil", b"x", 0)), "leads out"),
    ("absolute", zip_of(("/tmp/evil", b"x", 0)), "not a relative name"),
    ("backslash", zip_of(("..\\evil", b"x", 0)), "backslash"),
    ("drive", zip_of(("C:evil", b"x", 0)), "names a drive"),
    ("link up", zip_of(("l", b"../evil", stat.S_IFLNK | 0o777)), "leaves the directory"),
    ("link absolute", zip_of(("l", b"/etc/passwd", stat.S_IFLNK | 0o777)), "leaves the directory"),
    (
        "through a link",
        zip_of(("l", b"d", stat.S_IFLNK | 0o777), ("l/evil", b"x", 0)),
        "which is a link",
    ),
    ("long link", zip_of(("l", b"a" * 5000, stat.S_IFLNK | 0o777)), "no possible name"),
    ("device", zip_of(("c", b"", stat.S_IFCHR | 0o666)), "neither a file"),
    ("fifo", zip_of(("p", b"", stat.S_IFIFO | 0o666)), "neither a file"),
    ("socket", zip_of(("s", b"", stat.S_IFSOCK | 0o666)), "neither a file"),
    ("file and directory", zip_of(("a", b"x", 0), ("a/b", b"x", 0)), "which is a file"),
    ("zero byte", zip_of(("a\0b", b"x", 0)), "zero byte"),
    ("cut", zip_of(("a", b"x" * 5000, 0))[:100], "not a zip file"),
    ("garbage", b"PK this is no archive at all" * 100, "not a zip file"),
]


@pytest.mark.parametrize(("content", "why"), [pytest.param(*case[1:], id=case[0]) for case in HOSTILE_ZIPS])
def test_a_hostile_zip_is_refused_and_nothing_is_written_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore, content: bytes, why: str
) -> None:
    archive = tmp_path / "evil.zip"
    archive.write_bytes(content)
    refused_whole(store, archive, why, root)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_that_names_a_file_twice_is_refused_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    archive = tmp_path / "evil.zip"
    archive.write_bytes(zip_of(("a", b"x", 0), ("a", b"y", 0)))
    refused_whole(store, archive, "there twice", root)


def test_an_encrypted_or_falsified_zip_is_refused_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    archive = tmp_path / "evil.zip"
    good = bytearray(zip_of(("a", b"x" * 100, 0), compression=zipfile.ZIP_STORED))
    listing = good.index(b"PK\1\2")
    encrypted = good.copy()
    encrypted[listing + 8] |= 1
    wrong = good.copy()
    wrong[good.index(b"xxx")] ^= 1
    odd = good.copy()
    odd[listing + 10 : listing + 12] = struct.pack("<H", 99)
    for content, why in ((encrypted, "is encrypted"), (wrong, "damaged"), (odd, "cannot be read here")):
        archive.write_bytes(content)
        refused_whole(store, archive, why, root)


def bomb(ending: str) -> bytes:
    """Zeros, far more of them than there are bytes in the archive."""
    zeros = bytes(150 << 20)
    if ending == ".zip":
        return zip_of(*((f"{number}", zeros[: 50 << 20], 0) for number in range(3)))
    return COMPRESSED[ending](tar_of(tar_file("zeros", zeros)))


@pytest.mark.parametrize("ending", [".zip", ".tar.gz"])
def test_a_bomb_is_refused_before_it_goes_off_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore, ending: str
) -> None:
    archive = tmp_path / f"bomb{ending}"
    archive.write_bytes(bomb(ending))
    refused_whole(store, archive, "times its size", root)


@pytest.mark.parametrize("ending", [".zip", ".tar"])
def test_more_than_the_limit_is_refused_by_what_it_says_before_it_is_read_d9(
    tmp_path: Path, root: Path, ending: str
) -> None:
    store = DirectoryCodeStore(root, limit_bytes=1000)
    content = os.urandom(2000)
    archive = tmp_path / f"large{ending}"
    archive.write_bytes(zip_of(("a", content, 0)) if ending == ".zip" else tar_of(tar_file("a", content)))
    refused_whole(store, archive, "more than the 0.0 MiB allowed", root)


def test_a_header_larger_than_any_name_is_never_read_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 40
    archive = tmp_path / "evil.tar"
    archive.write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(5000))
    refused_whole(store, archive, "larger than any name", root)


def test_too_many_files_are_refused_c7() -> None:
    content = zip_of(*((f"{number}", b"", 0) for number in range(11)))
    code = LocalDirectory(path="many.zip")
    taken: list[bytes | str] = []
    with pytest.raises(InvalidInput, match="more than the 10 files"):
        read_archive(
            io.BytesIO(content),
            code,
            write=taken.append,
            keep=taken.append,
            limit_bytes=1000,
            most_entries=10,
        )


def test_a_zip_listing_that_would_fill_the_memory_is_never_read_c7(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    content = bytearray(zip_of(("a", b"", 0)))
    at = content.index(b"PK\5\6")
    content[at + 12 : at + 16] = struct.pack("<L", 0xF0000000)
    archive = tmp_path / "evil.zip"
    archive.write_bytes(content)
    refused_whole(store, archive, "lists its files in", root)


def test_zstd_is_refused_by_name_where_python_cannot_read_it(
    tmp_path: Path, root: Path, store: DirectoryCodeStore
) -> None:
    archive = tmp_path / "a.tar.zst"
    archive.write_bytes(b"\x28\xb5\x2f\xfd")
    refused_whole(store, archive, "zstd|damaged", root)


def test_a_zip_that_names_a_place_before_its_beginning_is_damaged(
    store: DirectoryCodeStore, root: Path, tmp_path: Path
) -> None:
    content = bytearray(zip_of(("a/b", b"xyz" * 50, 0), ("c", b"d", stat.S_IFLNK | 0o777)))
    content[188] = 1
    archive = tmp_path / "any.zip"
    archive.write_bytes(content[:193])
    refused_whole(store, archive, "is damaged", root)


@settings(max_examples=examples(80), deadline=None)
@given(st.data())
def test_a_damaged_archive_gives_a_snapshot_or_an_error_of_ours_c7(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    place = tmp_path_factory.mktemp("any")
    store = DirectoryCodeStore(place / "code", limit_bytes=1 << 20)
    ending = data.draw(st.sampled_from([".zip", *COMPRESSED]))
    good = zip_of(("a/b", b"xyz" * 50, 0), ("c", b"d", stat.S_IFLNK | 0o777))
    if ending != ".zip":
        good = COMPRESSED[ending](tar_of(tar_file("a/b", b"xyz" * 50), tar_other("c", tarfile.SYMTYPE, "a")))
    content = bytearray(good)
    for at, byte in data.draw(st.lists(st.tuples(st.integers(0, len(good) - 1), st.integers(0, 255)))):
        content[at] = byte
    archive = place / f"any{ending}"
    archive.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        store.snapshot(str(archive))
    except InvalidInput:
        assert nothing_kept(place / "code")


def refused_whole(store: DirectoryCodeStore, archive: Path, why: str, root: Path) -> None:
    """One clear error with the archive's name; nothing in the store, nothing anywhere beside it."""
    around = archive.parent
    before = sorted(path.relative_to(around) for path in around.rglob("*"))
    with pytest.raises(InvalidInput, match=why) as refused:
        store.snapshot(str(archive))
    assert [problem.file for problem in refused.value.problems] == [str(archive)]
    assert sorted(path.relative_to(around) for path in around.rglob("*")) == before
    assert nothing_kept(root)
