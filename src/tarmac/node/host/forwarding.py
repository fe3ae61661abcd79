"""The node's end of a forward: carries connections to an address of its loopback to the server.

Called by `agent`. The server can connect to the node but not the reverse: it requests the numbers of new
connections, and opens one to the agent for each.

    first      {"number"}      of an accepted connection
    answer     {"problem"}     the reason why it cannot be carried, or None
    then       its bytes, both ways

If no server requests connections, the port is closed: programs are refused at once, as if the server were
down.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from threading import Lock
from typing import BinaryIO, Optional

from tarmac.node.host import frames
from tarmac.node.host.splicing import Splicer
from tarmac.node.kernel import procfs
from tarmac.node.kernel.readiness import readable

WAITING = 64
TAKEN = 32
"""The maximum of connections accepted at once."""

STAY_S = 20.0
"""The time after the last request for which a port stays open, and an accepted connection waits."""


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

    def begin(self, connection: socket.socket, stream: BinaryIO) -> None:
        """Carry an accepted connection over another, which the server opened. Raises OSError, ValueError."""
        order = frames.read(stream)
        if order is None:
            return
        with self._lock:
            found = self._waiting.pop(order["number"], None)
        problem = None if found is not None else "the connection is gone"
        connection.sendall(frames.pack({"problem": problem}))
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
