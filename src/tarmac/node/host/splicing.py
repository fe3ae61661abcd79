"""Carries bytes between the two connections of pairs, in one thread for all. Used at both ends of a forward.

At most one piece waits in memory: a connection is read only after the other has taken the last piece.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Optional

PIECE_BYTES = 1 << 16


class Splicer:
    """The pairs of one thread, which starts with the first pair. Thread-safe."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._ends: dict[int, _End] = {}
        self._lock = Lock()
        self._thread: Optional[Thread] = None
        self._over = False

    def add(self, one: socket.socket, other: socket.socket) -> None:
        """Carry bytes between two connections; they are closed after both have ended, or on an error."""
        first, second = _End(one), _End(other)
        first.other, second.other = second, first
        with self._lock:
            if self._over:
                one.close()
                other.close()
                return
            for end in (first, second):
                end.connection.setblocking(False)
                self._ends[end.connection.fileno()] = end
                self._watch(end)
            if self._thread is None:
                self._thread = Thread(target=self._run, name="splicer", daemon=True)
                self._thread.start()

    def __len__(self) -> int:
        """The number of pairs."""
        return len(self._ends) // 2

    def close(self) -> None:
        """Close all pairs, and accept no more."""
        with self._lock:
            self._over = True
            for end in list(self._ends.values()):
                self._drop(end)

    def _run(self) -> None:
        while True:
            for handle, events in self._poll.poll():
                with self._lock:
                    end = self._ends.get(handle)
                    if end is not None:
                        self._carry(end, events)

    def _carry(self, end: _End, events: int) -> None:
        """Read or write a connection that is ready."""
        try:
            if events & ~select.EPOLLOUT and end.is_read:
                end.read()
            end.other.write()
            end.write()
        except OSError:
            self._drop(end)
            self._drop(end.other)
            return
        if end.is_over and end.other.is_over:
            self._drop(end)
            self._drop(end.other)
        else:
            self._watch(end)
            self._watch(end.other)

    def _watch(self, end: _End) -> None:
        """Wait for the possible events of a connection; ignore it if there are none, even its end."""
        events = (select.EPOLLIN if end.is_read else 0) | (select.EPOLLOUT if end.outgoing else 0)
        if events == end.events:
            return
        handle = end.connection.fileno()
        if end.events and events:
            self._poll.modify(handle, events)
        elif events:
            self._poll.register(handle, events)
        else:
            self._poll.unregister(handle)
        end.events = events

    def _drop(self, end: _End) -> None:
        handle = end.connection.fileno()
        if handle >= 0 and self._ends.pop(handle, None) is not None:
            if end.events:
                self._poll.unregister(handle)
            end.connection.close()


class _End:
    """One connection of a pair, and the bytes still to be written to it."""

    other: _End

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.outgoing = b""
        self.events = 0
        self.is_over = False
        """Whether its input has ended."""

    @property
    def is_read(self) -> bool:
        """Whether it may be read: only after the other has taken the last piece."""
        return not self.is_over and not self.other.outgoing

    def read(self) -> None:
        """Read the next piece; at the end of the input, shut down the other's output."""
        with suppress(BlockingIOError):
            self.other.outgoing = self.connection.recv(PIECE_BYTES)
            self.is_over = not self.other.outgoing
            if self.is_over:
                self.other.connection.shutdown(socket.SHUT_WR)

    def write(self) -> None:
        """Write as many bytes as possible."""
        if self.outgoing:
            with suppress(BlockingIOError):
                self.outgoing = self.outgoing[self.connection.send(self.outgoing) :]
