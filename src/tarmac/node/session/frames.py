"""Frames between the two ends of a session. Used at both ends, and by the server between them.

KIND LENGTH CONTENT: one byte, four bytes (big-endian), and LENGTH bytes of content.

The near end is a person's program, the far end runs beside the worker. An empty INPUT, OUTPUT or ERRORS is
the end of that stream. The near end sends no more input than it has room for: `FIRST_ROOM_BYTES`, plus the
amounts of ROOM frames, which the far end sends after passing input on. So a signal never waits behind the
input of a command that does not read.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Iterator, NamedTuple

WORKER = b"w"  # to the far end, first: JSON {"pid", "token"}: the worker of the session
OPEN = b"o"  # to the far end, second: JSON, the kind of session (see `serving`)
INPUT = b"i"  # to the far end: bytes
RESIZE = b"r"  # to the far end: JSON {"rows", "columns"}
SIGNAL = b"s"  # to the far end: JSON {"number"}
PING = b"p"  # either way: empty; keeps a silent connection open
OPENED = b"O"  # from the far end, first: JSON {"notices"}: it has begun
FAILED = (
    b"F"  # from the far end, instead of OPENED, or from the server, which lost it: JSON {"message", "hint"}
)
OUTPUT = b"1"  # from the far end: bytes
ERRORS = b"2"  # from the far end: bytes
ROOM = b"+"  # from the far end: JSON {"bytes"}
ENDED = b"E"  # from the far end, last: JSON {"exit_code", "signal", "message"}

LARGEST_BYTES = 1 << 20
"""The maximum content of a frame."""

PIECE_BYTES = 1 << 15
"""The maximum content of a frame of input or output: a signal waits behind one at most."""

FIRST_ROOM_BYTES = 1 << 18
PING_S = 15.0

_HEAD = struct.Struct(">cI")


class Frame(NamedTuple):
    """A kind and its content."""

    kind: bytes
    content: bytes

    def document(self) -> dict[str, Any]:
        """The content as JSON; raises ValueError if it is no object."""
        try:
            found = json.loads(self.content)
        except RecursionError as error:
            raise ValueError(str(error)) from None
        if not isinstance(found, dict):
            raise ValueError("the content of a frame is no object")
        return found


def pack(kind: bytes, content: bytes = b"") -> bytes:
    """Encode a frame."""
    return _HEAD.pack(kind, len(content)) + content


def pack_document(kind: bytes, /, **document: Any) -> bytes:
    """Encode a frame with JSON content."""
    return pack(kind, json.dumps(document, separators=(",", ":")).encode())


class Splitter:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._waiting += data

    def take(self) -> Iterator[Frame]:
        """The complete frames. Raises ValueError for an invalid one."""
        while len(self._waiting) >= _HEAD.size:
            kind, size_bytes = _HEAD.unpack_from(self._waiting)
            if size_bytes > LARGEST_BYTES:
                raise ValueError("what came is no frame")
            end = _HEAD.size + size_bytes
            if len(self._waiting) < end:
                return
            content = bytes(self._waiting[_HEAD.size : end])
            del self._waiting[:end]
            yield Frame(kind, content)

    def left(self) -> bytes:
        """The received bytes that are not in a returned frame."""
        return bytes(self._waiting)
