"""What runs worked in: for their owners, and only where an engine can list it."""

from __future__ import annotations

import pytest

from served import HELLO, Served
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Forbidden, NotFound, Refused
from tarmac.server.storage.work_files import WorkFiles

BOB = Actor(user="bob", roles=frozenset({ActorRole.MEMBER}))


def test_only_the_owner_and_admins_may_look(plane: Served) -> None:
    run = plane.client().submit(HELLO)["id"]
    plane.turn()
    work = WorkFiles(plane.plane)
    with pytest.raises(Forbidden, match="bob may not change files of"):
        work.listing(BOB, run, "", attempt=None, node=None)
    with pytest.raises(Forbidden):
        work.piece(BOB, run, "out", offset=0, attempt=None, node=None)


def test_what_is_not_there_is_said(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO)["id"]
    with pytest.raises(NotFound, match="it has not started yet"):
        client.files(run)
    plane.turn()
    with pytest.raises(NotFound, match="it has had 1 so far"):
        client.files(run, attempt=2)
    with pytest.raises(NotFound, match="has no node 'n9'"):
        client.files(run, node="n9")
    with pytest.raises(Refused, match="cannot be listed on its cluster"):
        client.files(run)
