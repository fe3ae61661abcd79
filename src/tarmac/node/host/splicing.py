"""Carries bytes between the two connections of pairs, by one thread for all. Used at both ends of a forward.

No more than a piece waits in memory: from one connection nothing is read until the other has taken that.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from threading import Lock, Thread
from typing import Optional

PIECE_BYTES = 1 << 16


class Splicer:
    """The pairs of one thread, which begins with the first. Thread-safe."""

    def __init__(self) -> None:
        self._poll = select.epoll()
        self._ends: dict[int, _End] = {}
        self._lock = Lock()
        self._thread: Optional[Thread] = None
        self._over = False

    def add(self, one: socket.socket, other: socket.socket) -> None:
        """Carry bytes between them from now on; they are closed once both, or either by an error, ended."""
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
        """How many pairs there are."""
        return len(self._ends) // 2

    def close(self) -> None:
        """Close all pairs, and take no more."""
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
        """Do what a connection is ready for."""
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
        """Wait for what it can be used for now; where that is nothing, not even for its end."""
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
    """One connection of a pair, and what it has still to be given."""

    other: _End

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.outgoing = b""
        self.events = 0
        self.is_over = False
        """Whether it brings nothing any more."""

    @property
    def is_read(self) -> bool:
        """Whether more of it can be taken: not before the other has what there was."""
        return not self.is_over and not self.other.outgoing

    def read(self) -> None:
        """Take what it brings; the end of that is passed on once the rest is."""
        with suppress(BlockingIOError):
            self.other.outgoing = self.connection.recv(PIECE_BYTES)
            self.is_over = not self.other.outgoing
            if self.is_over:
                self.other.connection.shutdown(socket.SHUT_WR)

    def write(self) -> None:
        """Give it what it takes."""
        if self.outgoing:
            with suppress(BlockingIOError):
                self.outgoing = self.outgoing[self.connection.send(self.outgoing) :]
