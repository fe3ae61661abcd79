"""What runs worked in: for their owners, and only where an engine can list it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import cast

import pytest

from actors import ADA
from histories import attempt_of, new_run
from served import HELLO, Served
from tarmac.control.service import ControlPlane
from tarmac.engines.hosts.host import local_host
from tarmac.model.abilities import FileEntry
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Forbidden, NotFound, Refused
from tarmac.model.run import Attempt, Run
from tarmac.node.files.untrusted import read_inside
from tarmac.server.storage.work_files import WorkFiles

BOB = Actor(user="bob", roles=frozenset({ActorRole.MEMBER}))


def test_only_the_owner_and_admins_may_look(plane: Served) -> None:
    run = plane.client().submit(HELLO).id
    plane.turn()
    work = WorkFiles(plane.plane)
    with pytest.raises(Forbidden, match="bob may not change files of"):
        work.listing(BOB, run, "", attempt=None, node=None)
    with pytest.raises(Forbidden):
        work.piece(BOB, run, "out", offset=0, attempt=None, node=None)


def test_what_is_not_there_is_said(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO).id
    with pytest.raises(NotFound, match="it has not started yet"):
        client.files(run)
    plane.turn()
    with pytest.raises(NotFound, match="it has had 1 so far"):
        client.files(run, attempt=2)
    with pytest.raises(NotFound, match="has no node 'n9'"):
        client.files(run, node="n9")
    with pytest.raises(Refused, match="cannot be listed on its cluster"):
        client.files(run)


class Files:
    """A control plane with one attempt, whose files are real ones."""

    def __init__(self, root: Path) -> None:
        self.run = new_run().run
        self.root = root
        (root / "nodes" / "n1" / "work").mkdir(parents=True)

    def find_here(self, *_: object) -> Run:
        return self.run

    def attempts(self, *_: object) -> list[Attempt]:
        return [attempt_of(self.run, node="n1")]

    def files(self, _actor: object, _attempt: str, path: str, *, limit: int) -> list[FileEntry]:
        return local_host(self.root).files(self.root, path, limit=limit) or []

    def read(self, _actor: object, _attempt: str, path: str, offset: int, limit: int) -> bytes:
        found = read_inside(str(self.root), path, offset=offset, limit=limit)
        if found is None:
            raise NotFound(path)
        return found


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("p", "'p' in attempt 1 on n1 is not a file (directory)", "tarmac files RUN PATH lists a directory"),
        ("a/link", "'a/link' in attempt 1 on n1 is not a file (link)", "links are not followed"),
        ("fifo", "'fifo' in attempt 1 on n1 is not a file (other)", "tarmac files RUN PATH"),
        ("ouput", "there is no file 'ouput' in attempt 1 on n1", "did you mean output?"),
        ("nothing", "there is no file 'nothing' in attempt 1 on n1", "tarmac files RUN lists what is there"),
    ],
)
def test_what_is_not_a_file_is_named(tmp_path: Path, path: str, message: str, hint: str) -> None:
    files = Files(tmp_path)
    work = tmp_path / "nodes" / "n1" / "work"
    (work / "p").mkdir()
    (work / "a").mkdir()
    (work / "a" / "link").symlink_to(work / "output")
    (work / "output").write_bytes(b"text")
    os.mkfifo(work / "fifo")
    with pytest.raises(NotFound) as refused:
        WorkFiles(cast(ControlPlane, files)).piece(ADA, "r1", path, offset=0, attempt=None, node=None)
    assert refused.value.message == message
    assert hint in str(refused.value.hint)


def test_an_attempt_that_cannot_be_is_named_as_it_was_asked_for(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match=r"there is no attempt 0 of .*: it has had 1 so far"):
        WorkFiles(cast(ControlPlane, Files(tmp_path))).piece(ADA, "r1", "f", offset=0, attempt=0, node=None)
