"""The node's end of a forward: carries connections to an address of its loopback to the server.

Called by `agent`. The server can connect to the node but not the reverse: it requests the numbers of new
connections, and opens one to the agent for each, which carries its bytes both ways.

If no server requests connections, the port is closed: programs are refused at once, as if the server were
down. `Splicer`, which both ends use, serves all pairs of connections in one thread. At most one piece of each
waits in memory: a connection is read only after the other has taken the last piece.
"""

from __future__ import annotations

import os
import select
import socket
import time
from contextlib import suppress
from threading import Lock, Thread
from typing import Optional

from tarmac.node.kernel import procfs
from tarmac.node.kernel.sockets import readable
from tarmac.node.wire.opening import answer

WAITING = 64
TAKEN = 32
"""The maximum of connections accepted at once."""

STAY_S = 20.0
"""The time after the last request for which a port stays open, and an accepted connection waits."""

PIECE_BYTES = 1 << 16


def loopback() -> str:
    """Identifies the loopback of this process among those of other machines and namespaces."""
    return f"{procfs.boot_id()} {os.stat('/proc/self/ns/net').st_ino}"


class Forwards:
    """The addresses at which one agent listens for its servers. Thread-safe. `stay_s`: see STAY_S."""

    def __init__(self, *, stay_s: float = STAY_S) -> None:
        self._stay_s = stay_s
        self._lock = Lock()
        self._listeners: dict[tuple[str, int], tuple[socket.socket, float]] = {}
        self._waiting: dict[int, tuple[socket.socket, float]] = {}
        self._last = 0
        self._splicer = Splicer()

    def take(self, address: str, port: int, of: str, *, wait_s: float) -> Optional[list[int]]:
        """The numbers of new connections to an address; waits at most `wait_s` for the first.

        None if the loopback is that of the server, `of`: there is nothing to carry. Raises OSError if
        listening at the address fails.
        """
        if of == loopback():
            return None
        listener = self._listener(address, port)
        readable(listener, wait_s)
        numbers: list[int] = []
        with self._lock, suppress(OSError):
            while len(numbers) < TAKEN:
                connection, _ = listener.accept()
                self._last += 1
                self._waiting[self._last] = connection, time.monotonic()
                numbers.append(self._last)
        self._listener(address, port)
        return numbers

    def begin(self, connection: socket.socket, number: int) -> None:
        """Carry the accepted connection `number` over another, which the server opened. Raises OSError."""
        with self._lock:
            found = self._waiting.pop(number, None)
        answer(connection, None if found is not None else "the connection is gone")
        if found is not None:
            self._splicer.add(found[0], connection.dup())

    def close_unused(self) -> None:
        """Close ports and connections that no server has requested for `stay_s`."""
        oldest = time.monotonic() - self._stay_s
        with self._lock:
            for place, (listener, used_at) in list(self._listeners.items()):
                if used_at < oldest:
                    del self._listeners[place]
                    listener.close()
            for number, (connection, came_at) in list(self._waiting.items()):
                if came_at < oldest:
                    del self._waiting[number]
                    connection.close()

    def _listener(self, address: str, port: int) -> socket.socket:
        """The listener at the address, opened if necessary, with its time of use renewed."""
        with self._lock:
            listener, _ = self._listeners.get((address, port), (None, 0.0))
            if listener is None:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = socket.create_server((address, port), family=family, backlog=WAITING)
                listener.setblocking(False)
            self._listeners[address, port] = listener, time.monotonic()
            return listener


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
