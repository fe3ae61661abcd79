"""Frames: what travels between the two ends of a session. Used at both ends, and by the server between them.

KIND LENGTH CONTENT: one byte, four bytes (the highest first), and so many bytes of content.

The near end is a person's program, the far end runs beside the worker. An empty INPUT, OUTPUT or ERRORS is
the end of that stream. The near end sends no more input than it has room for: `FIRST_ROOM_BYTES`, and what
the far end adds by ROOM when it has passed input on. So a command that reads nothing holds up no signal.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Iterator, NamedTuple

WORKER = b"w"  # to the far end, first: JSON {"pid", "token"}: beside whom the session is
OPEN = b"o"  # to the far end, second: JSON, what the session does (see `serving`)
INPUT = b"i"  # to the far end: bytes
RESIZE = b"r"  # to the far end: JSON {"rows", "columns"}
SIGNAL = b"s"  # to the far end: JSON {"number"}
PING = b"p"  # either way: nothing; keeps a silent connection open
OPENED = b"O"  # from the far end, first: JSON {"notices"}: it has begun
FAILED = (
    b"F"  # from the far end, instead of that, or from the server, which lost it: JSON {"message", "hint"}
)
OUTPUT = b"1"  # from the far end: bytes
ERRORS = b"2"  # from the far end: bytes
ROOM = b"+"  # from the far end: JSON {"bytes"}
ENDED = b"E"  # from the far end, last: JSON {"exit_code", "signal", "message"}

LARGEST_BYTES = 1 << 20
"""Of the content of a frame."""

PIECE_BYTES = 1 << 15
"""So much is sent in one frame: a signal waits behind no more than one."""

FIRST_ROOM_BYTES = 1 << 18
PING_S = 15.0

_HEAD = struct.Struct(">cI")


class Frame(NamedTuple):
    """One frame."""

    kind: bytes
    content: bytes

    def document(self) -> dict[str, Any]:
        """The content as JSON; raises ValueError for what is no object."""
        try:
            found = json.loads(self.content)
        except RecursionError as error:
            raise ValueError(str(error)) from None
        if not isinstance(found, dict):
            raise ValueError("the content of a frame is no object")
        return found


def pack(kind: bytes, content: bytes = b"") -> bytes:
    """A frame as it is sent."""
    return _HEAD.pack(kind, len(content)) + content


def pack_document(kind: bytes, /, **document: Any) -> bytes:
    """A frame whose content is JSON."""
    return pack(kind, json.dumps(document, separators=(",", ":")).encode())


class Splitter:
    """Frames out of bytes as they come."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> None:
        """More bytes."""
        self._waiting += data

    def take(self) -> Iterator[Frame]:
        """The frames that are whole. Raises ValueError for what cannot be one."""
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
        """What has come and was not taken."""
        return bytes(self._waiting)
