"""A connection to the agent of a node: direct TCP, without Ray.

Used by `node`, and by `sessions`. The other end is `node/host/agent.py`.
"""

from __future__ import annotations

import hmac
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from threading import Thread
from typing import Any

from tarmac.engines.hosts.channel import Channel
from tarmac.engines.ray.membership import Endpoint
from tarmac.model.errors import Unavailable
from tarmac.node.host.agent import AGENT, ENGINE, NONCE_BYTES, keep_watch, prove

CONNECT_S = 3.0
MARGIN_S = 5.0
"""Maximum transmission time of a request and its answer; after that the link is given up."""


class Link:
    """One connection, unusable once it is lost. Thread-safe. Raises Unavailable.

    `on_news` gets attempts with news, from a thread of the link.
    """

    def __init__(self, endpoint: Endpoint, *, on_news: Callable[[str], None]) -> None:
        self._socket = connected(endpoint, who=ENGINE)
        self._channel = Channel(
            self._socket.fileno(), send=self._send, close=self.close, on_news=on_news, margin_s=MARGIN_S
        )
        Thread(target=self._read, name="tarmac-link", daemon=True).start()

    @property
    def lost(self) -> bool:
        """Whether the link is unusable."""
        return self._channel.lost_at is not None

    @property
    def heard_at(self) -> float:
        """Time of the last message from the agent, by the monotonic clock."""
        return self._channel.heard_at

    def call(self, operation: str, *, timeout_s: float, arguments: Mapping[str, Any]) -> Any:
        """Perform a remote operation. Raises Unavailable, its OSError, and ValueError."""
        return self._channel.call(operation, timeout_s=timeout_s, arguments=arguments)

    def send_code(self, directory: str, digest: str, pieces: Iterator[bytes]) -> None:
        """Send a snapshot of code. Raises as `call`."""
        self._channel.send_code(directory, digest, pieces)

    def close(self) -> None:
        """Close the link; pending calls fail."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, rest: memoryview) -> int:
        return self._socket.send(rest, socket.MSG_DONTWAIT)

    def _read(self) -> None:
        with self._socket, self._socket.makefile("rb") as stream:
            self._channel.read(stream)
            self._channel.lose()
            with self._channel.sending:  # no thread writes to the descriptor after it is closed
                pass


def connected(endpoint: Endpoint, *, who: bytes) -> socket.socket:
    """A connection accepted by an agent; `who` is its purpose, see `agent`. Raises Unavailable."""
    where = f"{endpoint.address}:{endpoint.port}"
    try:
        connection = socket.create_connection((endpoint.address, endpoint.port), CONNECT_S)
    except OSError as error:
        raise Unavailable(f"the agent at {where} cannot be reached: {_words(error)}") from None
    try:
        keep_watch(connection)
        _greet(connection, bytes.fromhex(endpoint.token), who)
    except (OSError, ValueError) as error:
        connection.close()
        raise Unavailable(f"the agent at {where} did not take the connection: {error}") from None
    connection.settimeout(None)
    return connection


def _greet(connection: socket.socket, token: bytes, who: bytes) -> None:
    theirs = _receive(connection, NONCE_BYTES)
    ours = os.urandom(NONCE_BYTES)
    connection.sendall(ours + prove(token, theirs, who=who))
    if not hmac.compare_digest(_receive(connection, NONCE_BYTES), prove(token, ours, who=AGENT)):
        raise ValueError("it has another token")


def _receive(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        piece = connection.recv(count - len(found))
        if not piece:
            raise ConnectionError("it ended the connection: it has another token")
        found += piece
    return found


def _words(error: OSError) -> str:
    return "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
