"""Messages between the nodes: a line of JSON that opens a connection, then frames.

The connecting side proves the token of the attempt, without sending it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import struct
from contextlib import suppress
from typing import Any, Dict, Iterator, Tuple

TOKEN = "TARMAC_ATTEMPT_TOKEN"
OUTPUT, ERRORS, INPUT, CLOSE, EXIT = b"O", b"E", b"I", b"C", b"X"
CHUNK_BYTES = 1 << 16
_LONGEST_LINE = 1 << 20
_PATIENCE_S = 30.0
_HEAD = struct.Struct("!cI")


def connect(address: Tuple[str, int], opening: Dict[str, Any]) -> socket.socket:
    """A connection with its purpose. Raises OSError, also if it is refused."""
    found = socket.create_connection(address, timeout=30.0)
    nonce = read_line(found)["nonce"]
    send_line(found, {**opening, "proof": _proof(nonce)})
    if not read_line(found).get("taken"):
        raise OSError("the first node did not take the connection")
    found.settimeout(None)
    return found


def accept(found: socket.socket) -> Dict[str, Any]:
    """The purpose of a connection; raises OSError if it is not of this attempt."""
    found.settimeout(30.0)
    nonce = secrets.token_hex(16)
    send_line(found, {"nonce": nonce})
    opening = read_line(found)
    taken = hmac.compare_digest(str(opening.pop("proof", "")), _proof(nonce))
    send_line(found, {"taken": taken})
    if not taken:
        raise OSError("a stranger")
    found.settimeout(None)
    return opening


def send_line(to: socket.socket, document: Dict[str, Any]) -> None:
    """Send a document as one line."""
    to.sendall(json.dumps(document).encode() + b"\n")


def read_line(of: socket.socket) -> Dict[str, Any]:
    """The next line, read byte by byte, as frames may follow. Raises OSError if there is none."""
    line = b""
    while not line.endswith(b"\n"):
        byte = of.recv(1)
        if not byte or len(line) > _LONGEST_LINE:
            raise OSError("the connection ended")
        line += byte
    try:
        document = json.loads(line)
    except ValueError as error:
        raise OSError("not a line of ours") from error
    if not isinstance(document, dict):
        raise OSError("not a line of ours")
    return document


def send_frame(to: socket.socket, kind: bytes, content: bytes = b"") -> None:
    """Send a frame."""
    to.sendall(_HEAD.pack(kind, len(content)) + content)


def finish(of: socket.socket) -> None:
    """Close a connection after the other end has: otherwise its unread data would be lost."""
    with suppress(OSError), of:
        of.shutdown(socket.SHUT_WR)
        of.settimeout(_PATIENCE_S)
        while of.recv(CHUNK_BYTES):
            pass


def frames(of: socket.socket) -> Iterator[Tuple[bytes, bytes]]:
    """Every frame until the connection ends."""
    while True:
        head = _exactly(of, _HEAD.size)
        if head is None:
            return
        kind, length = _HEAD.unpack(head)
        content = _exactly(of, length)
        if content is None:
            return
        yield kind, content


def _exactly(of: socket.socket, count: int) -> "bytes | None":
    found = b""
    while len(found) < count:
        try:
            more = of.recv(min(count - len(found), CHUNK_BYTES))
        except OSError:
            return None
        if not more:
            return None
        found += more
    return found


def _proof(nonce: str) -> str:
    return hmac.new(os.environ[TOKEN].encode(), nonce.encode(), "sha256").hexdigest()
