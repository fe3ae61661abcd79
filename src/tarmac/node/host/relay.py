"""The node's end of the relay to the server's store of artifacts. Called by `agent`.

A node without access to the store cannot connect to the server; only the server can connect to the node. So a
sidecar calls a socket of its node, and the agent passes the call on over the link of the server that asked
last. The content of a call is a stream: it stays with the sidecar until the server reads it.
"""

from __future__ import annotations

import socket
from contextlib import suppress
from functools import partial
from threading import Condition, Thread
from typing import Any

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
