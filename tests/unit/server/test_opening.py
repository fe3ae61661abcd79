"""Streams are opened in turn: a crowd of one peer keeps neither requests nor other peers waiting."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tarmac.server.http.connections import PEER
from tarmac.server.logs.streams import OF_ALL, OF_ONE_PEER, OpenInTurn

STREAM = [(b"accept", b"text/event-stream")]


class SlowApp:
    """Counts what is being opened by peer, and answers only once it may."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.opening: Counter[Any] = Counter()
        self.streaming = 0
        self.end = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        peer = scope[PEER]
        self.opening[peer] += 1
        if scope["path"] == "/fails":
            self.opening[peer] -= 1
            raise ValueError("no such run")
        await self.gate.wait()
        self.opening[peer] -= 1
        await send({"type": "http.response.start", "status": 200})
        self.streaming += 1
        await self.end.wait()


async def settled() -> None:
    """Let every task go as far as it can: it begins no later than what is asked of the loop after it."""
    loop = asyncio.get_running_loop()
    for _ in range(20):
        turn = loop.create_future()
        loop.call_soon(turn.set_result, None)
        await turn


def opened(app: OpenInTurn, peer: object, *, path: str = "/", stream: bool = True) -> asyncio.Task[None]:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        assert message["type"] == "http.response.start"

    scope = {"type": "http", "path": path, "headers": STREAM if stream else [], PEER: peer}
    return asyncio.ensure_future(app(scope, receive, send))


def test_a_crowd_of_one_peer_leaves_turns_to_others() -> None:
    async def scenario() -> None:
        inner = SlowApp()
        app = OpenInTurn(inner)
        tasks = [opened(app, "crowd") for _ in range(100)]
        await settled()
        assert inner.opening["crowd"] == OF_ONE_PEER
        tasks += [opened(app, "honest"), opened(app, "crowd", stream=False)]
        await settled()
        assert inner.opening == {"crowd": OF_ONE_PEER + 1, "honest": 1}
        inner.gate.set()
        while inner.streaming < len(tasks):
            await settled()
        inner.end.set()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_many_peers_open_few_streams_at_a_time() -> None:
    async def scenario() -> None:
        inner = SlowApp()
        tasks = [opened(app, number) for app in [OpenInTurn(inner)] for number in range(100)]
        await settled()
        assert inner.opening.total() == OF_ALL
        inner.gate.set()
        inner.end.set()
        await asyncio.gather(*tasks)

    asyncio.run(scenario())


def test_a_stream_that_fails_or_is_given_up_gives_its_turn_back() -> None:
    async def scenario() -> None:
        inner = SlowApp()
        app = OpenInTurn(inner)
        for _ in range(2 * OF_ONE_PEER):
            with pytest.raises(ValueError, match="no such run"):
                await opened(app, "peer", path="/fails")
        waiting = [opened(app, "peer") for _ in range(3 * OF_ONE_PEER)]
        await settled()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        last = opened(app, "peer")
        await settled()
        assert inner.opening["peer"] >= 1
        inner.gate.set()
        inner.end.set()
        await last

    asyncio.run(scenario())
