"""The node's ends of connections to the server, over the link of the one that asked last. Called by `agent`.

The server can connect to the node but not the reverse. So the agent passes on what arrives at the node:

A relay passes the calls of sidecars without access to the store of artifacts to the server, which has it. A
sidecar calls a socket of its node. The content of a call is a stream: it stays with the sidecar until the
server reads it.

A forward carries connections to an address of the node's loopback. The agent listens at the address, and each
connection is a stream of a call. `carry` is used at both ends: a connection is read only as fast as the other
end takes its bytes. While no server is linked, the port is closed: programs are refused at once, as if the
server were down.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import partial
from threading import Condition, Lock, Thread
from typing import Any

from tarmac.node.kernel import procfs, sockets
from tarmac.node.wire.connection import Connection, Lost, Stream, over_socket, pass_on, run_over_socket

STORE = "store"
"""The operation of the server, with the arguments `request` and `size_bytes`: that of the content."""

LINK_S = 60.0
"""How long a call waits for a server."""


def socket_path(directory: str, address: str) -> str:
    """The relay's socket for the node with this address, below the directory of its cluster.

    Each node has its own, even if several share the directory.
    """
    return f"{directory}/artifacts-{address.replace(':', '_')}.sock"


class Relays:
    """The relays of a process, each made on first use; they serve until the process ends. Thread-safe."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._links: dict[str, Connection] = {}

    def serve(self, link: Connection, path: str) -> None:
        """Pass the calls at this socket on over a link from now on. Raises OSError."""
        with self._changed:
            if path not in self._links:
                Thread(target=self._accept, args=(path, sockets.listen(path)), daemon=True).start()
            self._links[path] = link
            self._changed.notify_all()

    def _accept(self, path: str, listener: socket.socket) -> None:
        operations = {STORE: partial(self._store, path)}
        while True:
            with suppress(OSError):
                found, _ = listener.accept()
                calls = over_socket(found, find=operations.__getitem__, accepted=True)
                Thread(target=run_over_socket, args=(found, calls), daemon=True).start()

    def _store(self, path: str, stream: Stream, request: dict[str, Any], size_bytes: int) -> Any:
        with self._changed:
            if not self._changed.wait_for(lambda: self._links[path].lost_at is None, LINK_S):
                raise Lost("the server is not connected to this node")
            link = self._links[path]
        return pass_on(stream, link, STORE, {"request": request, "size_bytes": size_bytes})


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
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # the ends decide what waits
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
