"""Limits the size of request bodies before parsing, because parsing delays every other request.

Runs after the access rules. Code is sent as a stream, which its routes limit themselves.
"""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarmac.model.errors import InvalidInput, TarmacError, TooLarge, Unavailable
from tarmac.server.http.errors import response

MIB = 1 << 20
LARGEST_BODY_BYTES = 8 * MIB
LARGEST_LIST_BYTES = 32 * MIB
"""For the routes that accept many runs, or the hashes of all files in a directory."""

SILENCE_S = 30.0
"""Maximum pause of a body before the server aborts its request."""

STREAMED = ("/code/packs", "/code/trees")
TWO_WAY = ("/sessions",)
"""Routes that read their bodies themselves, for as long as their answers last."""

LISTS = ("/runs/batch", "/code/missing")


class Bodies:
    """The application, with limits on bodies."""

    def __init__(self, app: ASGIApp, *, silence_s: float = SILENCE_S) -> None:
        self._app = app
        self._silence_s = silence_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def in_time() -> Message:
            try:
                return await asyncio.wait_for(receive(), self._silence_s)
            except TimeoutError:
                raise Unavailable(f"nothing came of the request for {self._silence_s:g} s") from None

        path = scope["path"]
        headers = Headers(scope=scope)
        without = "content-length" not in headers and "transfer-encoding" not in headers
        if without or path.endswith(TWO_WAY):
            await self._app(scope, receive, send)
        elif path.endswith(STREAMED):
            await self._app(scope, _only_first(in_time, receive), send)
        else:
            limit_bytes = LARGEST_LIST_BYTES if path.endswith(LISTS) else LARGEST_BODY_BYTES
            try:
                body = await _whole(in_time, headers.get("content-length"), limit_bytes)
            except TarmacError as error:
                await response(error)(scope, receive, send)
                return
            if body is not None:
                await self._app(scope, _replaying(body, receive), send)


async def _whole(receive: Receive, announced: str | None, limit_bytes: int) -> bytes | None:
    """The body; None if the client has disconnected. Raises TooLarge before memory use exceeds the limit."""
    if announced is not None:
        if not announced.isdecimal():
            raise InvalidInput(f"Content-Length: {announced!r:.80} is not a number")
        if int(announced) > limit_bytes:
            raise _too_large(int(announced), limit_bytes)
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        body += message.get("body", b"")
        if len(body) > limit_bytes:
            raise _too_large(len(body), limit_bytes)
        if not message.get("more_body", False):
            return bytes(body)


def _too_large(size_bytes: int, limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"the request is {size_bytes / MIB:.1f} MiB or larger, and {limit_bytes // MIB} MiB are the most",
        hint="send less at once; data belongs into code, datasets or artifacts",
    )


def _replaying(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body, and then the next message: the client's disconnect."""
    is_sent = False

    async def replay() -> Message:
        nonlocal is_sent
        if is_sent:
            return await receive()
        is_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


def _only_first(in_time: Receive, receive: Receive) -> Receive:
    """A `receive` with a time limit until the body is complete, and without one afterwards."""
    is_complete = False

    async def take() -> Message:
        nonlocal is_complete
        if is_complete:
            return await receive()
        message = await in_time()
        is_complete = not message.get("more_body", False)
        return message

    return take
