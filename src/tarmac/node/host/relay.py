"""The node's end of the relay to the server's store of artifacts. Called by `operations`.

A node that does not see the store has no way to the server either: the server reaches the node. So a sidecar
puts its requests to a socket of its node, the server takes them from there, and hands in the answers.

    sidecar -> here   {"request", "size"}, then the content in messages {"piece"}, each answered later
    here -> sidecar   {"answer", "piece", "more"}, as often as `more` is true and once again

One connection carries one request at a time; content stays with the sidecar until the server reads it, so no
more than a piece of it is in memory here. Messages are those of `frames`.
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
"""Of content at most: larger ones would hold up what else goes over the way to the server."""

INLINE_BYTES = 64 * 1024
"""Content so small is given with its request."""

TAKEN = 32
"""So many requests are given at once, at most."""

STALL_S = 60.0
"""How long a sidecar may take over a piece."""


def socket_path(directory: str, address: str) -> str:
    """Where the relay of the node with this address is, below the directory of its cluster.

    Each has one of its own, also where several nodes see the same directory.
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
        """The next requests, once there are any, or after so long: [{"id", "request", "size", "content"}].

        `content` is empty where `read` has to bring it. Another `session` is another server, or one that has
        lost the way to this node in between: what was taken before then is broken off.
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
        """Hand in the next piece of an answer. Raises OSError where nobody waits for it any more."""
        self._find(number).answer(answer, piece, more=more)

    def break_off(self, number: int) -> None:
        """Nobody will answer this request: who asked asks again."""
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
        """Put up the requests of one connection, one after the other."""
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
    """One request while it is not answered."""

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
        """As it is taken."""
        return {
            "id": self.number,
            "request": self._request,
            "size": self._size_bytes,
            "content": self._content,
        }

    def read(self) -> bytes:
        """The next piece of its content."""
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
        """Nobody will answer it: who asked asks again over another connection."""
        self._end(whole=False)
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)

    def wait(self) -> bool:
        """Wait for the answer; False where the connection cannot go on after it."""
        with self._over:
            while self._ended is None and not self._is_left():
                self._over.wait(STALL_S / 10)
            return bool(self._ended)

    def _end(self, *, whole: bool) -> None:
        with self._over:
            self._ended = whole
            self._over.notify_all()

    def _is_left(self) -> bool:
        """Whether who asked is gone, or has closed the connection."""
        poll = select.poll()
        poll.register(self._connection, select.POLLRDHUP)
        return bool(poll.poll(0))


def _next(connection: socket.socket, stream: BinaryIO) -> Optional[_Asking]:
    """The next request, whenever it comes; None where the connection ends."""
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
    """The relays of a process, each made at its first use."""

    def __init__(self) -> None:
        self._relays: dict[str, Relay] = {}
        self._lock = Lock()

    def at(self, path: str) -> Relay:
        """The one at this socket. Raises OSError."""
        with self._lock:
            relay = self._relays.get(path)
            if relay is None:
                relay = self._relays[path] = Relay(path)
            return relay
