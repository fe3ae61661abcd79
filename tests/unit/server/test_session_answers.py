"""What the near end of a session is told when its far end is lost: whole frames, and then why."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

from tarmac.node.session import frames
from tarmac.node.wire.frames import Frame, Splitter, pack, pack_document
from tarmac.server.changes import Changes
from tarmac.server.sessions import FarSide, SessionAnswer


def answer(said: bytes) -> list[Frame]:
    """What comes to the near end of a session whose far end says this and is gone."""

    async def run() -> list[Frame]:
        ours, theirs = socket.socketpair()
        far = FarSide(ours.detach())
        theirs.sendall(pack_document(frames.OPENED, notices=[]) + said)
        begun = await far.begin(pack_document(frames.OPEN))
        theirs.recv(1 << 16)
        theirs.close()
        splitter = Splitter()

        async def body() -> AsyncIterator[bytes]:
            await asyncio.Event().wait()
            yield b""

        attached: Counter[str] = Counter()
        counts: set[int] = set()

        async def send(message: MutableMapping[str, Any]) -> None:
            splitter.feed(message.get("body", b""))
            counts.add(attached["r1"])

        made = SessionAnswer(
            far,
            body(),
            early=b"",
            begun=begun,
            changes=Changes(),
            run_id="r1",
            node="h1.gpus",
            attached=attached,
        )

        async def receive() -> MutableMapping[str, Any]:
            return {}

        await made({}, receive, send)
        assert (counts, attached["r1"]) == ({0, 1}, 0), "the session counts while it is open"
        found = list(splitter.take())
        assert splitter.left() == b"", "half a frame came through"
        return found

    return asyncio.run(run())


def test_a_far_end_that_is_lost_is_named_behind_what_had_come_as_a_whole() -> None:
    broken = pack(frames.OUTPUT, b"whole") + pack(frames.OUTPUT, b"half of it")[:-3]
    opened, output, last = answer(broken)
    assert (opened.kind, output.content, last.kind) == (frames.OPENED, b"whole", frames.FAILED)
    assert last.document()["message"] == (
        "the connection to node h1.gpus broke off, and what ran in the session is ended"
    )


def test_a_session_that_has_ended_is_not_broken_off() -> None:
    ended = pack_document(frames.ENDED, exit_code=3, signal=None, message=None)
    assert [frame.kind for frame in answer(ended)] == [frames.OPENED, frames.ENDED]
