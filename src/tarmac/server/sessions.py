"""A session between a user's program and its far end: one request and one answer, both of them streams.

Made by the route `sessions`. The body of the request carries frames to the far end (`node.session.frames`),
and the answer carries the returned frames; when either side closes, the other is closed. A single request
shares addresses, access rules and errors with the other routes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from socket import socket

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tarmac.api.history_operations import SESSION
from tarmac.model.errors import InvalidInput, Refused, Unavailable
from tarmac.node.session import frames
from tarmac.node.wire.frames import Frame, Splitter, pack, pack_document
from tarmac.server.changes import Changes, Watch

OPENING_S = 30.0
"""Maximum time for the first frame."""

ANSWER_S = 60.0
"""Maximum time for the first answer of the far end: its node may be busy."""

BROKEN = "the connection to node {} broke off, and what ran in the session is ended"

_READ_BYTES = 1 << 16
_CHECK_S = 3600.0


async def opening_frame(body: AsyncIterator[bytes], splitter: Splitter) -> Frame:
    """The first frame of a request; later bytes stay in the splitter. Raises InvalidInput."""
    try:
        async with asyncio.timeout(OPENING_S):
            async for piece in body:
                splitter.feed(piece)
                for frame in splitter.take():
                    if frame.kind != frames.OPEN:
                        raise InvalidInput("a session begins with the frame OPEN")
                    return frame
    except ClientDisconnect:
        raise Unavailable("the client has gone") from None
    except TimeoutError:
        raise InvalidInput(f"no frame came within {OPENING_S:g} s") from None
    except ValueError as error:
        raise InvalidInput(str(error)) from None
    raise InvalidInput("a session begins with the frame OPEN")


class FarSide:
    """The server's end of the connection to the far end. The caller must `close` it in every case."""

    def __init__(self, channel: int) -> None:
        self._channel = socket(fileno=channel)
        self._channel.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._splitter = Splitter()
        self._ended = False
        self._sending = asyncio.Lock()

    async def begin(self, opening: bytes) -> bytes:
        """Send the frame OPEN; returns the first bytes of the answer. Raises Refused if it fails."""
        try:
            async with asyncio.timeout(ANSWER_S):
                await self.send(opening)
                first = await self._first()
        except (TimeoutError, OSError):
            raise Unavailable("the session did not begin", hint="try again") from None
        if first.kind == frames.FAILED:
            answer = first.document()
            raise Refused(str(answer["message"]), hint=answer.get("hint"))
        return pack(*first)

    async def _first(self) -> Frame:
        while True:
            for frame in self._splitter.take():
                return frame
            await self._hear()

    async def receive(self) -> bytes:
        """The next complete frames; b"" at the end. Raises OSError if the connection breaks."""
        while not self._ended:
            found = list(self._splitter.take())
            if found:
                self._ended = found[-1].kind == frames.ENDED
                return b"".join(pack(*frame) for frame in found)
            await self._hear()
        return b""

    async def _hear(self) -> None:
        data = await self._loop.sock_recv(self._channel, _READ_BYTES)
        if not data:
            raise ConnectionError("the far end closed the session")
        self._splitter.feed(data)

    async def send(self, data: bytes) -> None:
        """Forward bytes, as fast as the far end accepts them."""
        async with self._sending:
            await self._loop.sock_sendall(self._channel, data)

    def close(self) -> None:
        """End the session."""
        self._channel.close()


@dataclass(eq=False)
class SessionAnswer(Response):
    """The answer of a session: it lasts until one side has closed, or the server stops.

    `early` bytes followed OPEN from the near end, `begun` ones came from the far end, on `node`. `attached`
    counts the open sessions of each run.
    """

    far: FarSide
    body_stream: AsyncIterator[bytes]
    early: bytes
    begun: bytes
    changes: Changes
    run_id: str
    node: str
    attached: Counter[str]
    background: None = None
    status_code: int = 200

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        headers = [
            (b"content-type", SESSION.encode()),
            (b"cache-control", b"no-store"),
            (b"connection", b"close"),
        ]
        self.attached[self.run_id] += 1
        try:
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": self.begun, "more_body": True})
            with self.changes.watch(self.run_id) as watch:
                sides = [
                    asyncio.ensure_future(self._to_far()),
                    asyncio.ensure_future(self._to_near(send)),
                    asyncio.ensure_future(self._stopping(watch)),
                ]
                try:
                    await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for side in sides:
                        side.cancel()
                    await asyncio.gather(*sides, return_exceptions=True)
        finally:
            self.far.close()
            self.attached[self.run_id] -= 1
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _to_far(self) -> None:
        with suppress(ClientDisconnect):
            try:
                await self.far.send(self.early)
                async for piece in self.body_stream:
                    await self.far.send(piece)
            except OSError:
                await asyncio.Event().wait()  # the other direction ends with it, and reports the end

    async def _to_near(self, send: Send) -> None:
        try:
            while data := await self.far.receive():
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except (OSError, ValueError):
            problem = pack_document(frames.FAILED, message=BROKEN.format(self.node), hint=None)
            await send({"type": "http.response.body", "body": problem, "more_body": True})

    async def _stopping(self, watch: Watch) -> None:
        while not self.changes.stopping:
            await watch.after(watch.version, _CHECK_S)
