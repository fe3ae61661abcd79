"""Code as a stream: what is put down elsewhere is what was sent, whole or not at all."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attempts import copy_of_node
from code_trees import copied
from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.errors import NotFound, Unavailable
from tarmac.node.files.codestore import receive
from tarmac.node.starting import Installation


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two snapshots' worth of code, so that contents lie in several packs."""
    directory = tmp_path / "project"
    (directory / "bin").mkdir(parents=True)
    (directory / "empty").mkdir()
    (directory / "train.py").write_text("print('hello')\n")
    (directory / "again.py").write_text("print('hello')\n")
    (directory / "nothing").touch()
    (directory / "bin" / "go").write_bytes(os.urandom(3 << 20))
    (directory / "bin" / "go").chmod(0o750)
    (directory / "link").symlink_to("bin/go")
    return directory


@pytest.fixture
def store(tmp_path: Path) -> DirectoryCodeStore:
    return DirectoryCodeStore(tmp_path / "home" / "code")


@pytest.fixture
def digest(project: Path, store: DirectoryCodeStore) -> str:
    store.snapshot(str(project))
    (project / "later.py").write_text("import train\n")
    return store.snapshot(str(project))


def tree(directory: Path) -> dict[str, object]:
    """Everything below a directory, with its mode, time and content."""
    found: dict[str, object] = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        content = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
        dated_ns = status.st_mtime_ns if path.is_file() and not path.is_symlink() else 0
        found[str(path.relative_to(directory))] = (status.st_mode, dated_ns, content)
    return found


def test_what_arrives_is_what_was_sent(
    tmp_path: Path, project: Path, store: DirectoryCodeStore, digest: str
) -> None:
    site = tmp_path / "site" / "code"
    sent = b"".join(store.stream(digest))
    receive(io.BytesIO(sent), str(site), digest)
    receive(io.BytesIO(b""), str(site), digest)  # it is there
    assert tree(copied(site, digest)) == tree(copied(tmp_path / "home" / "code", digest))
    assert {path.name for path in site.rglob("*")} == {digest, "packs", f"{digest}.pack"}
    once = sum(path.stat().st_size for path in project.rglob("*") if path.is_file() and not path.is_symlink())
    assert len(sent) < once + 4096  # equal contents travel once


def test_a_machine_without_tarmac_takes_it(tmp_path: Path, store: DirectoryCodeStore, digest: str) -> None:
    site = tmp_path / "site" / "code"
    command = Installation(sys.executable, str(copy_of_node(tmp_path / "copy"))).take(str(site), digest)
    subprocess.run(command, input=b"".join(store.stream(digest)), check=True)
    assert "later.py" in tree(copied(site, digest))


@pytest.mark.parametrize("missing", [1, 1000, 3 << 20, None])
def test_one_that_breaks_off_leaves_nothing(
    tmp_path: Path, store: DirectoryCodeStore, digest: str, missing: int | None
) -> None:
    site = tmp_path / "site"
    sent = b"".join(store.stream(digest))
    with pytest.raises(ValueError, match=r"missing|no snapshot"):
        receive(io.BytesIO(sent[:-missing] if missing else b""), str(site), digest)
    assert not [path for path in site.rglob("*") if path.is_file()]


def test_a_name_that_is_no_snapshot_leads_nowhere(tmp_path: Path, store: DirectoryCodeStore) -> None:
    with pytest.raises(ValueError, match="is not the name of a snapshot"):
        receive(io.BytesIO(b"0 0\n"), str(tmp_path), "../../home")
    for name in ("../code", "0" * 64):
        with pytest.raises(NotFound):
            list(store.stream(name))


def test_a_pack_that_is_gone_is_said(tmp_path: Path, store: DirectoryCodeStore, digest: str) -> None:
    for pack in (tmp_path / "home" / "code" / "packs").iterdir():
        pack.unlink()
    with pytest.raises(Unavailable):
        list(store.stream(digest))
