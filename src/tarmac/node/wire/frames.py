"""Frames: KIND LENGTH CONTENT, which are one byte, four bytes (big-endian), and LENGTH bytes.

Used by connections (`wire.connection`) and by sessions (`node.session.frames`). The content is bytes, JSON,
or a message: JSON with bytes in it,

    LENGTH OF THE DOCUMENT: four bytes, big-endian
    the document: JSON, in which {"\\0bytes": [FROM, TO]} refers to a part of the bytes
    the bytes
"""

from __future__ import annotations

import json
import struct
from typing import Any, Callable, Iterator, NamedTuple, Optional

LARGEST_BYTES = 1 << 20
"""The maximum content of a frame, unless its reader allows more."""

_HEAD = struct.Struct(">cI")
_SIZE = struct.Struct(">I")
_BYTES = "\0bytes"


class Frame(NamedTuple):
    """A kind and its content."""

    kind: bytes
    content: bytes

    def document(self) -> dict[str, Any]:
        """The content as JSON; raises ValueError if it is no object."""
        return _object(self.content)


def pack(kind: bytes, content: bytes = b"") -> bytes:
    """Encode a frame."""
    return _HEAD.pack(kind, len(content)) + content


def pack_document(kind: bytes, /, **document: Any) -> bytes:
    """Encode a frame with JSON content."""
    return pack(kind, json.dumps(document, separators=(",", ":")).encode())


def read(read_bytes: Callable[[int], bytes], largest_bytes: int = LARGEST_BYTES) -> Optional[Frame]:
    """The next frame; None if fewer bytes than requested are read. Raises ValueError for an invalid one."""
    head = read_bytes(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, size_bytes = _HEAD.unpack(head)
    content = read_bytes(_checked(size_bytes, largest_bytes))
    return Frame(kind, content) if len(content) == size_bytes else None


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
            end = _HEAD.size + _checked(size_bytes, LARGEST_BYTES)
            if len(self._waiting) < end:
                return
            frame = Frame(kind, bytes(self._waiting[_HEAD.size : end]))
            del self._waiting[:end]
            yield frame

    def left(self) -> bytes:
        """The received bytes that are not in a returned frame."""
        return bytes(self._waiting)


def encode(message: dict[str, Any]) -> bytes:
    """Encode a message. Raises TypeError for a value that is neither JSON nor bytes."""
    pieces: list[bytes] = []
    end = 0

    def take(value: object) -> dict[str, list[int]]:
        nonlocal end
        if not isinstance(value, bytes):
            raise TypeError(f"{type(value).__name__} does not travel")
        pieces.append(value)
        end += len(value)
        return {_BYTES: [end - len(value), end]}

    document = json.dumps(message, default=take, separators=(",", ":")).encode()
    return b"".join((_SIZE.pack(len(document)), document, *pieces))


def decode(content: bytes) -> dict[str, Any]:
    """Decode a message. Raises ValueError for an invalid one."""
    if len(content) < _SIZE.size:
        raise ValueError("the content of a frame is no message")
    begin = _SIZE.size + _SIZE.unpack_from(content)[0]

    def give(found: dict[str, Any]) -> Any:
        if _BYTES not in found:
            return found
        first, end = found[_BYTES]
        return content[begin + first : begin + end]

    return _object(content[_SIZE.size : begin], give)


def _checked(size_bytes: int, largest_bytes: int) -> int:
    if size_bytes > largest_bytes:
        raise ValueError("what came is no frame")
    return size_bytes


def _object(text: bytes, hook: Any = None) -> dict[str, Any]:
    try:
        found = json.loads(text, object_hook=hook)
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(found, dict):
        raise ValueError("the content of a frame is no object")
    return found
