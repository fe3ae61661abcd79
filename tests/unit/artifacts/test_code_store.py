"""Code snapshots: what they hold, what they are called, and what is refused."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from code_trees import copied, nothing_kept, snapshots_in
from examples import examples
from tarmac.artifacts.code.content import HashMemory, Vanished
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.artifacts.code.tree import scan
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.node.files.codestore import PACKS, PARTIAL_PREFIX

NOBODY = 65534


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    directory.mkdir()
    (directory / "train.py").write_text("print('hello')\n")
    return directory


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "home" / "code"


@pytest.fixture
def store(root: Path) -> DirectoryCodeStore:
    return DirectoryCodeStore(root)


def listing(tree: Path) -> set[str]:
    """Every path below `tree`, directories with a slash."""
    return {
        path.relative_to(tree).as_posix() + ("/" if path.is_dir() and not path.is_symlink() else "")
        for path in tree.rglob("*")
    }


def test_a_snapshot_holds_content_modes_links_and_empty_directories(
    project: Path, root: Path, store: DirectoryCodeStore
) -> None:
    script = project / "bin" / "go"
    script.parent.mkdir()
    script.write_bytes(b"#!/bin/sh\n")
    script.chmod(0o750)
    (project / "empty").mkdir()
    (project / "latest").symlink_to("bin/go")
    (project / "dangling").symlink_to("made-later")
    tree = copied(root, store.snapshot(str(project)))
    assert listing(tree) == {"train.py", "bin/", "bin/go", "empty/", "latest", "dangling"}
    assert (tree / "train.py").read_text() == "print('hello')\n"
    assert stat.S_IMODE((tree / "bin" / "go").stat().st_mode) == 0o750
    assert (tree / "latest").readlink() == Path("bin/go")


def test_the_same_content_is_the_same_snapshot_made_once(
    project: Path, root: Path, store: DirectoryCodeStore
) -> None:
    first = store.snapshot(str(project))
    inode = (root / first).stat().st_ino
    assert store.snapshot(str(project)) == first
    assert DirectoryCodeStore(root).snapshot(str(project)) == first
    assert (root / first).stat().st_ino == inode
    assert snapshots_in(root) == [first]


@pytest.mark.parametrize("change", ["content", "mode", "name", "link", "new directory"])
def test_any_change_gives_another_digest(project: Path, store: DirectoryCodeStore, change: str) -> None:
    (project / "link").symlink_to("train.py")
    before = store.snapshot(str(project))
    script = project / "train.py"
    if change == "content":
        script.write_text("print('HELLO')\n")  # as long as before, within the same tick of the clock
    elif change == "mode":
        script.chmod(0o755)
    elif change == "name":
        script.rename(project / "train2.py")
    elif change == "link":
        (project / "link").unlink()
        (project / "link").symlink_to("elsewhere")
    else:
        (project / "new").mkdir()
    assert store.snapshot(str(project)) != before


def test_an_unchanged_settled_tree_is_not_read_again(project: Path) -> None:
    memory = HashMemory()
    settled = [replace(entry, changed_ns=0) for entry in scan(project)]
    hashes = memory.hashes(project, settled)
    (project / "train.py").unlink()
    assert memory.hashes(project, settled) == hashes
    with pytest.raises(Vanished):
        memory.hashes(project, [replace(entry, stamp=(1,)) for entry in settled])


def test_what_was_read_is_remembered_by_the_next_process(project: Path, tmp_path: Path) -> None:
    """C7: a directory of hashes outlives who filled it; what is damaged there is read from the tree again."""
    settled = [replace(entry, changed_ns=0) for entry in scan(project)]
    kept = tmp_path / "cache" / "hashes"
    hashes = HashMemory(kept).hashes(project, settled)
    assert HashMemory(kept).known(project, settled) == hashes
    (file,) = kept.iterdir()
    for damage in ("", "[1]", '{"train.py": 7}', "{"):
        file.write_text(damage)
        assert HashMemory(kept).hashes(project, settled) == hashes


def test_what_changed_just_now_is_read_again(project: Path) -> None:
    """It may change once more within one tick of the file system's clock."""
    memory, entries = HashMemory(), scan(project)
    hashes = memory.hashes(project, entries)
    (project / "train.py").write_text("print('HELLO')\n")
    assert memory.hashes(project, entries) != hashes


def test_special_files_are_left_out(project: Path, root: Path, store: DirectoryCodeStore) -> None:
    os.mkfifo(project / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        here = Path.cwd()
        os.chdir(project)  # the path of a socket is bounded, that of a test directory is not
        listener.bind("sock")
        os.chdir(here)
        tree = copied(root, store.snapshot(str(project)))
    assert listing(tree) == {"train.py"}


@pytest.mark.parametrize("target", ["../secret", "/etc/passwd", "sub/../../secret", "sub/out/../x"])
def test_a_link_that_leaves_the_directory_is_refused_with_its_place(
    project: Path, root: Path, store: DirectoryCodeStore, target: str
) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "out").symlink_to("..")  # stays inside, but what is reached through it may not
    (project / "bad").symlink_to(target)
    with pytest.raises(InvalidInput) as caught:
        store.snapshot(str(project))
    (problem,) = caught.value.problems
    assert problem.file == str(project / "bad")
    assert "leaves the directory" in problem.message
    assert nothing_kept(root)


def test_an_absolute_link_into_the_directory_would_lead_out_of_the_copy(
    project: Path, store: DirectoryCodeStore
) -> None:
    (project / "link").symlink_to(project / "train.py")
    with pytest.raises(InvalidInput, match="leaves the directory"):
        store.snapshot(str(project))


def test_every_problem_is_told_at_once(project: Path, store: DirectoryCodeStore) -> None:
    for name in ("a", "b", "c"):
        (project / name).symlink_to("/etc/passwd")
    with pytest.raises(InvalidInput) as caught:
        store.snapshot(str(project))
    assert len(caught.value.problems) == 3


def test_of_many_links_that_leave_the_directory_a_few_are_named_and_all_counted(
    project: Path, store: DirectoryCodeStore
) -> None:
    (project / "data").mkdir()
    for number in range(650):
        (project / "data" / f"{number:03}").symlink_to(f"/mnt/set/{number}")
    with pytest.raises(InvalidInput) as caught:
        store.snapshot(str(project))
    (problem,) = caught.value.problems
    assert problem.file == str(project)
    assert problem.message.startswith("650 things cannot be copied: data/")
    assert problem.message.count("leaves the directory: /mnt/set/") == 3
    assert problem.message.endswith("; and 647 more")
    assert problem.hint == "leave it out in .tarmacignore if the run does not need it"


@pytest.mark.parametrize("kind", ["missing", "file", "nul"])
def test_what_is_no_directory_is_refused_by_name(project: Path, store: DirectoryCodeStore, kind: str) -> None:
    path = {"missing": str(project / "nope"), "file": str(project / "train.py"), "nul": "a\0b"}[kind]
    with pytest.raises(InvalidInput, match="directory"):
        store.snapshot(path)


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Permissions do not bind root: be nobody for the length of the test."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


@pytest.mark.parametrize("what", ["directory", "file", "top"])
def test_what_cannot_be_read_is_refused_by_name(unprivileged: None, what: str) -> None:
    with TemporaryDirectory() as temporary:
        project = Path(temporary) / "project"
        (project / "data").mkdir(parents=True)
        (project / "data" / "x.bin").write_bytes(b"x")
        store = DirectoryCodeStore(Path(temporary) / "code")
        closed = {"directory": project / "data", "file": project / "data" / "x.bin", "top": project}[what]
        closed.chmod(0)
        with pytest.raises(InvalidInput) as caught:
            store.snapshot(str(project))
        closed.chmod(0o700)
        (problem,) = caught.value.problems
        assert problem.file == str(closed)
        assert "Permission denied" in problem.message


def test_too_much_code_is_refused_naming_the_largest_files(project: Path, root: Path) -> None:
    store = DirectoryCodeStore(root, limit_bytes=3 << 20)
    (project / "model.bin").write_bytes(b"\0" * (4 << 20))
    with pytest.raises(InvalidInput, match=r"4\.0 MiB.*3\.0 MiB allowed.*model\.bin \(4\.0 MiB\)"):
        store.snapshot(str(project))
    (project / ".tarmacignore").write_text("*.bin\n")
    store.snapshot(str(project))


def test_the_store_and_the_home_never_hold_themselves(project: Path) -> None:
    home = project / "home"
    (home / "runs").mkdir(parents=True)
    store = DirectoryCodeStore(home / "code", leave_out=(home,))
    digest = store.snapshot(str(project))
    assert listing(copied(home / "code", digest)) == {"train.py"}
    assert store.snapshot(str(project)) == digest


def test_leftovers_of_a_crash_are_swept_on_opening_but_not_work_in_progress(
    project: Path, root: Path, store: DirectoryCodeStore
) -> None:
    leftovers = [root / f"{PARTIAL_PREFIX}crashed", root / PACKS / f"{PARTIAL_PREFIX}crashed"]
    for leftover in leftovers:
        leftover.write_text("half")
    with store.packs.writer() as busy:
        busy.write(b"half a content")
        DirectoryCodeStore(root)
        assert len(list((root / PACKS).iterdir())) == 1
        assert not any(leftover.exists() for leftover in leftovers)
    assert nothing_kept(root)


def test_snapshots_made_at_once_come_to_one(project: Path, root: Path, store: DirectoryCodeStore) -> None:
    for number in range(50):
        (project / f"file{number}").write_bytes(os.urandom(1000))
    with ThreadPoolExecutor(8) as threads:
        digests = set(threads.map(store.snapshot, [str(project)] * 16))
    assert len(digests) == 1
    assert snapshots_in(root) == list(digests)


def test_a_store_that_cannot_be_written_is_unavailable_and_keeps_nothing(
    project: Path, root: Path, store: DirectoryCodeStore
) -> None:
    (root / PACKS).rmdir()
    root.rmdir()
    with pytest.raises(Unavailable, match="cannot keep a copy"):
        store.snapshot(str(project))
    root.mkdir()
    store.snapshot(str(project))


NAMES = st.text("abé ü-.#!*[", min_size=1, max_size=4).filter(lambda name: name.strip(".") and name != ".git")
TREES = st.dictionaries(
    st.lists(NAMES, min_size=1, max_size=3).map("/".join), st.binary(max_size=20), min_size=1, max_size=6
)


@settings(max_examples=examples(60), deadline=None)
@given(TREES, st.randoms(use_true_random=False))
def test_the_digest_depends_on_the_tree_alone(tree: dict[str, bytes], shuffle: object) -> None:
    """Made in another order, at another place, by another store: the same name and the same content."""
    with TemporaryDirectory() as temporary:
        place = Path(temporary)
        digests = []
        for copy in ("one", "two"):
            names = sorted(tree)
            shuffle.shuffle(names)  # type: ignore[attr-defined]
            written = _write(place / copy, {name: tree[name] for name in sorted(names)})
            store = DirectoryCodeStore(place / f"{copy}.code")
            digest = store.snapshot(str(place / copy))
            digests.append(digest)
            kept = copied(place / f"{copy}.code", digest)
            assert {name: (kept / name).read_bytes() for name in written} == written
        assert digests[0] == digests[1]


def _write(directory: Path, tree: dict[str, bytes]) -> dict[str, bytes]:
    """Write what can coexist of a tree (a name may be a file or a directory, not both)."""
    written: dict[str, bytes] = {}
    directory.mkdir()
    for name, content in tree.items():
        path = directory / name
        if path.exists() or any((directory / name).parents[i].is_file() for i in range(name.count("/") + 1)):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        written[name] = content
    return written
