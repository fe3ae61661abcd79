"""The node's end of a forward: carries connections to an address of its loopback to the server.

Called by `agent`. The server can connect to the node but not the reverse. So the agent listens at the
address, and each connection is a stream of a call over the link of the server that asked last. `carry` is
used at both ends: a connection is read only as fast as the other end takes its bytes.

While no server is linked, the port is closed: programs are refused at once, as if the server were down.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from threading import Lock, Thread

from tarmac.node.kernel import procfs
from tarmac.node.wire.connection import Connection, Lost, Stream

FORWARD = "forward"
"""The operation of the server for one connection: its bytes are the stream of the call."""

WAITING = 64
PIECE_BYTES = 1 << 16

Place = tuple[str, int]


def loopback() -> str:
    """Identifies the loopback of this process among those of other machines and namespaces."""
    return f"{procfs.boot_id()} {os.stat('/proc/self/ns/net').st_ino}"


class Forwards:
    """The addresses at which one agent listens for its servers. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._listeners: dict[Place, tuple[socket.socket, Connection]] = {}

    def serve(self, link: Connection, *, address: str, port: int, of: str) -> None:
        """Carry connections to an address over a link from now on. Raises OSError if listening there fails.

        If the loopback is that of the server, `of`, there is nothing to carry.
        """
        if of == loopback():
            return
        place = address, port
        with self._lock:
            listener, _ = self._listeners.get(place, (None, None))
            if listener is None:
                family = socket.AF_INET6 if ":" in address else socket.AF_INET
                listener = socket.create_server(place, family=family, backlog=WAITING)
                Thread(target=self._accept, args=(place, listener), name="forward", daemon=True).start()
            self._listeners[place] = listener, link

    def close_unused(self) -> None:
        """Close the ports whose link is lost."""
        with self._lock:
            for place, (listener, link) in list(self._listeners.items()):
                if link.lost_at is not None:
                    del self._listeners[place]
                    listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
                    listener.close()

    def _accept(self, place: Place, listener: socket.socket) -> None:
        while listener.fileno() >= 0:
            with suppress(OSError):
                connection, _ = listener.accept()
                Thread(target=self._carry, args=(place, connection), name="forward", daemon=True).start()

    def _carry(self, place: Place, connection: socket.socket) -> None:
        with connection, suppress(KeyError, OSError, Lost):
            _, link = self._listeners[place]
            stream = link.stream(FORWARD, {})
            try:
                carry(connection, stream)
            finally:
                stream.break_off()


def carry(connection: socket.socket, stream: Stream) -> None:
    """Carry the bytes between a connection and a stream until both directions have ended.

    Raises Lost and OSError if one of them breaks.
    """

    def send() -> None:
        try:
            while (piece := connection.recv(PIECE_BYTES)) and stream.send(piece, None):
                pass
            stream.finish()
        except (OSError, Lost) as error:
            stream.lose(str(error))

    sender = Thread(target=send, name="forward", daemon=True)
    sender.start()
    try:
        for piece in stream:
            connection.sendall(piece)
        connection.shutdown(socket.SHUT_WR)
        sender.join()
    finally:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)  # wakes the sender
