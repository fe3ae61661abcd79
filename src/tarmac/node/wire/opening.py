"""Opens connections over TCP: both ends prove a token without sending it, then one request names a service.

Used by agents of nodes and by the nodes of an attempt. After the answer the connection belongs to the
service: calls (`wire.connection`), or bytes of its own.
"""

from __future__ import annotations

import hmac
import os
import socket
from functools import partial
from typing import Any, Optional

from tarmac.node.wire import frames

OPEN, TAKEN = b"o", b"t"
"""The request {"service", "with"}, and its answer {"problem"}: the reason of a refusal, or None."""

NONCE_BYTES = 32
_CONNECTING, _ACCEPTING = b"connecting", b"accepting"


def request(found: socket.socket, token: bytes, service: str, **arguments: Any) -> None:
    """Open a connection that this end made. Raises OSError; ValueError with the reason of a refusal."""
    theirs, ours = _receive(found, NONCE_BYTES), os.urandom(NONCE_BYTES)
    found.sendall(ours + _proof(token, theirs, _CONNECTING))
    if not hmac.compare_digest(_receive(found, NONCE_BYTES), _proof(token, ours, _ACCEPTING)):
        raise ConnectionError("it has another token")
    found.sendall(frames.pack_document(OPEN, service=service, **{"with": arguments}))
    problem = _frame(found, TAKEN)["problem"]
    if problem is not None:
        raise ValueError(str(problem))


def accept(found: socket.socket, token: bytes) -> tuple[str, dict[str, Any]]:
    """The service that the connecting end requests, and its arguments; `answer` must follow.

    Raises OSError, also for another token, and ValueError.
    """
    ours = os.urandom(NONCE_BYTES)
    found.sendall(ours)
    theirs, proof = _receive(found, NONCE_BYTES), _receive(found, NONCE_BYTES)
    if not hmac.compare_digest(proof, _proof(token, ours, _CONNECTING)):
        raise ConnectionError("it has another token")
    found.sendall(_proof(token, theirs, _ACCEPTING))
    document = _frame(found, OPEN)
    return str(document["service"]), dict(document["with"])


def answer(found: socket.socket, problem: Optional[str] = None) -> None:
    """Answer an accepted request. Raises OSError."""
    found.sendall(frames.pack_document(TAKEN, problem=problem))


def keep_watch(found: socket.socket, *, lost_s: int = 60) -> None:
    """Make the kernel detect the loss of the other end within `lost_s`; a tunnel's program does so itself."""
    if found.family == socket.AF_UNIX:
        return
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        (socket.TCP_NODELAY, 1),
        (socket.TCP_KEEPIDLE, lost_s // 3),
        (socket.TCP_KEEPINTVL, lost_s // 6),
        (socket.TCP_KEEPCNT, 3),
        (socket.TCP_USER_TIMEOUT, lost_s * 1000),
    ):
        found.setsockopt(socket.IPPROTO_TCP, option, value)


def _proof(token: bytes, nonce: bytes, end: bytes) -> bytes:
    return hmac.new(token, end + nonce, "sha256").digest()


def _frame(found: socket.socket, kind: bytes) -> dict[str, Any]:
    """The document of the next frame, without a later byte. Raises OSError and ValueError."""
    frame = frames.read(partial(_receive, found))
    if frame is None or frame.kind != kind:
        raise ConnectionError("it sent another frame")
    return frame.document()


def _receive(found: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = found.recv(count - len(received))
        if not piece:
            raise ConnectionError("it ended the connection: it has another token")
        received += piece
    return received
