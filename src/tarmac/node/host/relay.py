"""The node's end of the relay to the server's store of artifacts. Called by `operations`.

A node without access to the store cannot connect to the server; only the server can connect to the node. So a
sidecar sends its requests to a socket of its node, the server fetches them there, and returns the answers.

    sidecar -> here   {"request", "size"}, then the content in messages {"piece"}, each answered later
    here -> sidecar   {"answer", "piece", "more"}, repeated until `more` is false

One connection carries one request at a time; content stays with the sidecar until the server reads it, so at
most one piece of it is in memory here. Messages are those of `frames`.
"""

from __future__ import annotations

import select
import socket
import time
from collections import deque
from contextlib import suppress
from threading import Condition, Lock, Thread
from typing import Any, BinaryIO, Optional

from tarmac.node.host import frames
from tarmac.node.kernel import sockets

PIECE_BYTES = 1 << 20
"""The maximum of a piece of content: larger ones would delay other messages to the server."""

INLINE_BYTES = 64 * 1024
"""Content up to this size is sent with its request."""

TAKEN = 32
"""The maximum of requests returned at once."""

STALL_S = 60.0
"""The maximum time of a sidecar for a piece."""


def socket_path(directory: str, address: str) -> str:
    """The relay's socket for the node with this address, below the directory of its cluster.

    Each node has its own, even if several share the directory.
    """
    return f"{directory}/artifacts-{address.replace(':', '_')}.sock"


class Relay:
    """The relay at one socket; it serves until the process ends."""

    def __init__(self, path: str) -> None:
        self._listener = sockets.listen(path)
        self._changed = Condition(Lock())
        self._waiting: deque[int] = deque()
        self._asking: dict[int, _Asking] = {}
        self._session = ""
        self._last = 0
        Thread(target=self._accept, name="relay", daemon=True).start()

    def take(self, session: str, *, wait_s: float) -> list[dict[str, Any]]:
        """The next requests, after at most `wait_s`: [{"id", "request", "size", "content"}].

        `content` is empty if the server must fetch it with `read`. A different `session` means another
        server, or one that lost its connection to this node: requests returned before are broken off.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            if session != self._session:
                self._session = session
                for asking in self._asking.values():
                    if asking.taken:
                        asking.break_off()
                self._changed.notify_all()
            while not self._waiting and self._session == session:
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._changed.wait(left_s):
                    break
            if self._session != session:
                return []
            taken = [self._waiting.popleft() for _ in range(min(TAKEN, len(self._waiting)))]
            found = [self._asking[number] for number in taken if number in self._asking]
            for asking in found:
                asking.taken = True
        return [asking.record() for asking in found]

    def read(self, number: int) -> bytes:
        """The next piece of the content of a request; empty after the last. Raises OSError."""
        return self._find(number).read()

    def answer(self, number: int, answer: dict[str, Any], piece: bytes, *, more: bool) -> None:
        """Pass on the next piece of an answer. Raises OSError if the sidecar has left."""
        self._find(number).answer(answer, piece, more=more)

    def break_off(self, number: int) -> None:
        """End a request without an answer: the sidecar then repeats it."""
        self._find(number).break_off()

    def _find(self, number: int) -> _Asking:
        with self._changed:
            asking = self._asking.get(number)
        if asking is None:
            raise ConnectionError("nobody waits for this any more")
        return asking

    def _accept(self) -> None:
        while True:
            with suppress(OSError):
                connection, _ = self._listener.accept()
                Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        """Queue the requests of one connection in turn."""
        connection.settimeout(STALL_S)
        with connection, connection.makefile("rb") as stream, suppress(OSError, ValueError, KeyError):
            while (asking := _next(connection, stream)) is not None:
                with self._changed:
                    self._last += 1
                    asking.number = number = self._last
                    self._asking[number] = asking
                    self._waiting.append(number)
                    self._changed.notify_all()
                try:
                    if not asking.wait():
                        return
                finally:
                    with self._changed:
                        del self._asking[number]


class _Asking:
    """One unanswered request."""

    def __init__(
        self, connection: socket.socket, stream: BinaryIO, request: dict[str, Any], size_bytes: int
    ) -> None:
        self.number = 0
        self.taken = False
        self._connection = connection
        self._stream = stream
        self._request = request
        self._size_bytes = size_bytes
        self._left_bytes = size_bytes
        self._over = Condition(Lock())
        self._ended: Optional[bool] = None
        self._content = self.read() if 0 < size_bytes <= INLINE_BYTES else b""

    def record(self) -> dict[str, Any]:
        """The request in the form that `take` returns."""
        return {
            "id": self.number,
            "request": self._request,
            "size": self._size_bytes,
            "content": self._content,
        }

    def read(self) -> bytes:
        """The next piece of the request's content."""
        if self._left_bytes == 0:
            return b""
        message = frames.read(self._stream)
        if message is None:
            raise ConnectionError("who asked is gone")
        piece: bytes = message["piece"]
        if not piece or len(piece) > min(self._left_bytes, PIECE_BYTES):
            raise ConnectionError("what came is no piece of what was announced")
        self._left_bytes -= len(piece)
        return piece

    def answer(self, answer: dict[str, Any], piece: bytes, *, more: bool) -> None:
        """Send a part of the answer; the last part ends it, if its content was read."""
        try:
            self._connection.sendall(frames.pack({"answer": answer, "piece": piece, "more": more}))
        except OSError:
            self._end(whole=False)
            raise
        if not more:
            self._end(whole=self._left_bytes == 0)

    def break_off(self) -> None:
        """End the request without an answer: the sidecar repeats it over another connection."""
        self._end(whole=False)
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def wait(self) -> bool:
        """Wait for the answer; False if the connection cannot continue after it."""
        with self._over:
            while self._ended is None and not self._is_left():
                self._over.wait(STALL_S / 10)
            return bool(self._ended)

    def _end(self, *, whole: bool) -> None:
        with self._over:
            self._ended = whole
            self._over.notify_all()

    def _is_left(self) -> bool:
        """Whether the sidecar has left, or has closed the connection."""
        poll = select.poll()
        poll.register(self._connection, select.POLLRDHUP)
        return bool(poll.poll(0))


def _next(connection: socket.socket, stream: BinaryIO) -> Optional[_Asking]:
    """The next request, without a time limit; None at the end of the connection."""
    connection.settimeout(None)
    head = frames.read(stream)
    connection.settimeout(STALL_S)
    if head is None:
        return None
    request, size_bytes = head["request"], head["size"]
    if not isinstance(request, dict) or type(size_bytes) is not int or size_bytes < 0:
        raise ValueError("what came is no request")
    return _Asking(connection, stream, request, size_bytes)


class Relays:
    """The relays of a process, each made on first use."""

    def __init__(self) -> None:
        self._relays: dict[str, Relay] = {}
        self._lock = Lock()

    def at(self, path: str) -> Relay:
        """The relay at this socket. Raises OSError."""
        with self._lock:
            relay = self._relays.get(path)
            if relay is None:
                relay = self._relays[path] = Relay(path)
            return relay
