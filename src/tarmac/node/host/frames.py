"""Messages on a connection to a host: JSON with bytes in it. Used at both ends.

LENGTH OF THE DOCUMENT, LENGTH OF THE BYTES: four bytes each, big-endian
the document: JSON, in which {"\\0bytes": [FROM, TO]} refers to a part of the bytes
the bytes
"""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO, Optional

LARGEST_BYTES = 64 * 1024 * 1024
"""The maximum of the document and of the bytes."""

_HEAD = struct.Struct(">II")
_BYTES = "\0bytes"


def pack(message: dict[str, Any]) -> bytes:
    """Encode a message."""
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
    return b"".join((_HEAD.pack(len(document), end), document, *pieces))


def read(stream: BinaryIO) -> Optional[dict[str, Any]]:
    """The next message; None at the end of the connection. Raises ValueError for an invalid one."""
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    sizes = _HEAD.unpack(head)
    if max(sizes) > LARGEST_BYTES:
        raise ValueError("what came is no message")
    document, content = (stream.read(size) for size in sizes)
    if (len(document), len(content)) != sizes:
        return None

    def give(found: dict[str, Any]) -> Any:
        if _BYTES not in found:
            return found
        begin, end = found[_BYTES]
        return content[begin:end]

    try:
        message = json.loads(document, object_hook=give)
    except (RecursionError, TypeError) as error:
        raise ValueError(str(error)) from None
    if not isinstance(message, dict):
        raise ValueError("what came is no message")
    return message
