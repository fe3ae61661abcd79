"""Opens few event streams at a time, fewer of one peer, so that a crowd blocks no others. Used by `app`."""

import asyncio
from collections.abc import Hashable
from contextlib import AsyncExitStack
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarmac.server.http.connections import PEER
from tarmac.server.http.sse import wants_stream

OF_ALL = 8
OF_ONE_PEER = 2


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
