"""The node's end of the relay to the server's store of artifacts. Called by `agent`.

A node without access to the store cannot connect to the server; only the server can connect to the node. So a
sidecar calls a socket of its node, and the agent passes the call on over the link of the server that asked
last. The content of a call is a stream: it stays with the sidecar until the server reads it.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from threading import Condition, Lock, Thread
from typing import Any, Optional

from tarmac.node.kernel import sockets
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


class Relay:
    """The relay at one socket; it serves until the process ends."""

    def __init__(self, path: str) -> None:
        self._listener = sockets.listen(path)
        self._changed = Condition()
        self._link: Optional[Connection] = None
        Thread(target=self._accept, name="relay", daemon=True).start()

    def pass_to(self, link: Connection) -> None:
        """Pass calls on over this link from now on."""
        with self._changed:
            self._link = link
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            with suppress(OSError):
                found, _ = self._listener.accept()
                Thread(target=self._serve, args=(found,), daemon=True).start()

    def _serve(self, found: socket.socket) -> None:
        run_over_socket(found, over_socket(found, find={STORE: self._store}.__getitem__, accepted=True))

    def _store(self, stream: Stream, request: dict[str, Any], size_bytes: int) -> Any:
        with self._changed:
            if not self._changed.wait_for(lambda: self._link and self._link.lost_at is None, LINK_S):
                raise Lost("the server is not connected to this node")
            link = self._link
        assert link is not None, "it was waited for"
        return pass_on(stream, link, STORE, {"request": request, "size_bytes": size_bytes})


class Relays:
    """The relays of a process, each made on first use."""

    def __init__(self) -> None:
        self._relays: dict[str, Relay] = {}
        self._lock = Lock()

    def serve(self, link: Connection, path: str) -> None:
        """Pass the calls at this socket on over a link. Raises OSError."""
        with self._lock:
            if path not in self._relays:
                self._relays[path] = Relay(path)
        self._relays[path].pass_to(link)
