"""Limits the number of connections, and the time and size of the head and the body of a request.

Anyone who can reach a port can open connections to it, without a token. So connections over TCP have a
separate budget, which does not affect the socket of the home; and TLS and the head of a request must be
complete within seconds. A connection counts from its first moment, before TLS. Bodies are limited after the
access rules and before parsing, because parsing delays every other request; code is sent as a stream, which
its routes limit themselves.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, cast

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tarmac.model.errors import InvalidInput, TarmacError, TooLarge, Unavailable
from tarmac.model.home import GATEWAY_SOCKET
from tarmac.server.http.answers import response
from tarmac.server.http.auth import PEER_UID
from tarmac.server.http.origins import network_of

LARGEST_HEAD_BYTES = 1 << 16
MOST_OPEN_FILES = 1 << 16

PEER = "tarmac.peer"
"""The key in the scope of a request for its peer: the id of a process, or an address."""

_KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))
"""Seconds of silence before the kernel's first probe, seconds between probes, and unanswered probes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Maximum connections over TCP and over the home's socket; maximum time for the head of a request.

    The same time is for the rest of a body that was refused.
    """

    tcp: int = 1024
    home: int = 4096
    head_s: float = 15.0


class Budget:
    """The connections of one kind of address, at most half of them of one peer.

    A peer is a process, or an address of TCP. If its share is exhausted, its longest idle connection is
    closed; if the budget is exhausted, the longest idle one of the peer with most connections.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._peers: dict[Hashable, dict[LimitedProtocol, bool]] = {}  # whether each is idle; longest first

    def open(self, connection: LimitedProtocol) -> bool:
        """Add a connection; False if there is no room and no idle connection to close."""
        crowd = self._peers.get(connection.peer, {})
        if len(crowd) >= self._most // 2 or sum(map(len, self._peers.values())) >= self._most:
            if len(crowd) < self._most // 2:
                crowd = max(self._peers.values(), key=lambda peer: (True in peer.values(), len(peer)))
            oldest = next((each for each, idle in crowd.items() if idle), None)
            if oldest is None:
                return False
            self.close(oldest)
            oldest.drop()
        self._peers.setdefault(connection.peer, {})[connection] = True
        return True

    def busy(self, connection: LimitedProtocol) -> None:
        """Mark the connection as busy: it is not closed for others."""
        if connection in (peer := self._peers.get(connection.peer, {})):
            peer[connection] = False

    def idle(self, connection: LimitedProtocol) -> None:
        """Mark the connection as idle: its request was answered."""
        if (peer := self._peers.get(connection.peer, {})).pop(connection, None) is not None:
            peer[connection] = True

    def close(self, connection: LimitedProtocol) -> None:
        """Remove a closed connection."""
        peer = self._peers.get(connection.peer, {})
        if peer.pop(connection, None) is not None and not peer:
            del self._peers[connection.peer]


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's connection, within a budget. `limited` makes subclasses with their budgets."""

    limits: Limits
    tcp: Budget
    home: Budget

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._budget = self.tcp
        self._head_bytes: int | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.handshake: asyncio.Task[None] | None = None
        self._peer_uid: int | None = None
        self.peer: Hashable = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        found = transport.get_extra_info("socket")
        if found is not None and found.family == socket.AF_UNIX:
            if found.getsockname() != GATEWAY_SOCKET:  # runs of other machines connect over that one
                self._budget = self.home
            self.peer, self._peer_uid = _peer_process(found)
        elif found is not None:
            self.peer = network_of(found.getpeername()[0])
            found.setsockopt(
                socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1
            )  # sessions end with the machine of their user
            for option, value in _KEEP_ALIVE:
                found.setsockopt(socket.IPPROTO_TCP, option, value)
        admitted, self.handshake = self.handshake is not None or self._budget.open(self), None
        if admitted:
            self._await_head()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._budget.close(self)
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._head_bytes += len(data)  # if the head ends within this piece, the rest of it is body
            if self._head_bytes > LARGEST_HEAD_BYTES and b"\r\n\r\n" not in data:
                self.send_400_response("The head of the request is too large.")
                return
        super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope = cast(dict[str, Any], self.scope)
        scope[PEER] = self.peer
        if self._peer_uid is not None:
            scope[PEER_UID] = self._peer_uid
        self._await_head()

    def on_headers_complete(self) -> None:
        self._stop_timer()
        self._budget.busy(self)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._stop_timer()
        super().on_message_complete()
        if self.cycle.response_complete:  # uvicorn's own timer ended with the rest of the body
            self._await_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete:
            self._budget.idle(self)
            if self.cycle.more_body and not self.transport.is_closing():
                self._start_timer()  # nothing reads the rest of the body

    def _await_head(self) -> None:
        if self._head_bytes is None:
            self._head_bytes = 0
            self._start_timer()

    def _start_timer(self) -> None:
        self._timer = self.loop.call_later(self.limits.head_s, self.drop)

    def _stop_timer(self) -> None:
        self._head_bytes = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def drop(self) -> None:
        """Close the connection at once, also during its handshake."""
        if self.handshake is not None:
            self.handshake.cancel()
        else:
            self.transport.abort()


def _peer_process(connection: socket.socket) -> tuple[int, int]:
    """The connected process and its user, from the kernel, so that neither can be forged."""
    size = struct.calcsize("3i")
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    return pid, uid


def limited(limits: Limits) -> type[LimitedProtocol]:
    """A class of connections that share these limits."""

    class Limited(LimitedProtocol):
        pass

    Limited.limits, Limited.tcp, Limited.home = limits, Budget(limits.tcp), Budget(limits.home)
    return Limited


def usual_limits() -> Limits:
    """The limits for this process's maximum of open files: half of them for the home, a quarter for TCP."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY:
        return Limits()
    usual = Limits()
    return Limits(tcp=min(usual.tcp, files // 4), home=min(usual.home, files // 2))


def allow_open_files() -> tuple[int, int]:
    """Raise the limit of open files; returns the previous limits, which the server's child processes get."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_OPEN_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return soft, hard


MIB = 1 << 20
LARGEST_BODY_BYTES = 8 * MIB
LARGEST_LIST_BYTES = 32 * MIB
"""For the routes that accept many runs, or the hashes of all files in a directory."""

SILENCE_S = 30.0
"""Maximum pause of a body before the server aborts its request; and the time that any body may take."""

LEAST_BYTES_PER_S = 4 << 10
"""A body that takes longer must arrive at this rate, or the server aborts its request."""

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
        loop = asyncio.get_running_loop()
        left_s = self._silence_s

        async def in_time() -> Message:
            nonlocal left_s
            began_at = loop.time()
            try:
                message = await asyncio.wait_for(receive(), min(left_s, self._silence_s))
            except TimeoutError:
                raise Unavailable(
                    f"the request pauses for {self._silence_s:g} s, or is slower than "
                    f"{LEAST_BYTES_PER_S >> 10} KiB/s"
                ) from None
            left_s += len(message.get("body", b"")) / LEAST_BYTES_PER_S - (loop.time() - began_at)
            return message

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
