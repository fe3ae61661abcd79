"""Serves programs on a node that cannot connect to the server, over the link to that node.

The agent passes calls of sidecars to the store of artifacts on (`node/host/relay.py`), and `AnswerRequest`
performs them (`artifacts/versions/store_server.py`). It also passes connections to the gateway of another
system on (`node/host/relay.py`), which continue to a unix socket of the server: the server does not
mistake them for programs of its own user on this machine.
"""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import BoundedSemaphore
from typing import Any

from tarmac.model.errors import Unavailable
from tarmac.node.host.relay import carry
from tarmac.node.kernel import sockets
from tarmac.node.wire.connection import Lost, Stream

PIECE_S = 60.0
"""The maximum time of a sidecar for a piece."""

MOST_AT_ONCE = 4
"""Maximum number of requests of a node handled at once."""

BEGIN_S = 5.0
MOST_CONNECTIONS = 256
"""Maximum number of simultaneous connections of one node."""

Answer = tuple[Mapping[str, Any], Iterator[bytes]]
AnswerRequest = Callable[[Mapping[str, Any], int, Iterator[bytes]], Answer]
"""Performs a request with its content, a number of bytes in pieces: returns the answer, and its content."""


def store_operation(answer: AnswerRequest) -> Callable[..., Any]:
    """The operation that sidecars of one node call: see `node.host.relay.STORE`."""
    slots = BoundedSemaphore(MOST_AT_ONCE)

    def store(stream: Stream, request: Mapping[str, Any], size_bytes: int) -> dict[str, Any]:
        with slots:
            found, pieces = answer(request, size_bytes, _content(stream, size_bytes))
            while stream.receive(PIECE_S):
                pass  # the sidecar sends everything before it reads
            try:
                for piece in pieces:
                    stream.send(piece)
            except Unavailable as error:
                return {"down": str(error)}
            return dict(found)

    return store


def _content(stream: Stream, size_bytes: int) -> Iterator[bytes]:
    """The content of a request; raises Unavailable if it ends early."""
    while size_bytes > 0:
        piece = stream.receive(PIECE_S)
        if not 0 < len(piece) <= size_bytes:
            raise Unavailable("the content of a request is not as long as announced")
        size_bytes -= len(piece)
        yield piece


def forward_operation(path: Path) -> Callable[[Stream], None]:
    """The operation that carries a connection of one node to a unix socket: see `relay.FORWARD`."""
    slots = BoundedSemaphore(MOST_CONNECTIONS)

    def forward(stream: Stream) -> None:
        if not slots.acquire(blocking=False):
            raise Lost(f"the node has {MOST_CONNECTIONS} connections already")
        try:
            with sockets.connect(str(path), timeout_s=BEGIN_S) as near:
                near.settimeout(None)
                carry(near, stream)
        finally:
            slots.release()

    return forward
