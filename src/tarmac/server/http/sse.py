"""Server-sent events: framing, keep-alive, the opening and the end of a stream.

A few lines of our own over StreamingResponse instead of sse-starlette: that library starts three helpers per
stream (pings, disconnects, shutdown), while these streams already wake up twenty times a second to read
files.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import AsyncExitStack
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarmac.server.http.connections import PEER

MEDIA_TYPE = "text/event-stream"
KEEP_ALIVE_S = 15.0
COMMENT = b": still here\n\n"
"""Keeps a silent connection alive; clients ignore it."""

OF_ALL = 8
OF_ONE_PEER = 2
"""Event streams that are opened at a time, so that a crowd of one peer blocks no others."""

_STOPPING = "the server is stopping; its runs go on"


def wants_stream(request: Request) -> bool:
    """Whether the client asked for an event stream instead of a list."""
    return MEDIA_TYPE in request.headers.get("accept", "")


def frame(event: str, data: Any, *, identifier: str | None = None) -> bytes:
    """One message in wire format. JSON has no raw line breaks, so its data is one line."""
    head = f"id: {identifier}\n" if identifier is not None else ""
    return f"{head}event: {event}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"


def stopping_frame() -> bytes:
    """The message that the server was stopped on purpose: the client should not start it again at once."""
    return frame("stopping", {"text": _STOPPING})


class StreamResponse(StreamingResponse):
    """A streaming answer."""

    def __init__(self, frames: AsyncIterator[bytes]) -> None:
        super().__init__(frames, media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


class OpenInTurn:
    """An application that opens its event streams in turn; streams that are already open do not count."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._all = asyncio.Semaphore(OF_ALL)
        self._peers: WeakValueDictionary[Hashable, asyncio.Semaphore] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not wants_stream(Request(scope)):
            await self._app(scope, receive, send)
            return
        async with AsyncExitStack() as turn:

            async def send_and_leave(message: Message) -> None:
                await send(message)
                await turn.aclose()

            peer = scope.get(PEER)
            await turn.enter_async_context(self._peers.setdefault(peer, asyncio.Semaphore(OF_ONE_PEER)))
            await turn.enter_async_context(self._all)
            await self._app(scope, receive, send_and_leave)
