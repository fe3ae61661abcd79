"""Reading files below a directory, for whoever asks by name: nothing outside it can be reached.

The working directory of an attempt belongs to the user's program, which may put any link there: none is
followed. Called by engines, and on the hosts that they reach.
"""

from __future__ import annotations

import os
from typing import Optional

from tarmac.node.files import untrusted

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_inside(directory: str, path: str, *, offset: int, limit: int) -> Optional[bytes]:
    """At most `limit` bytes from `offset` of a regular file below `directory`; None if there is none such.

    A negative offset counts from its end.
    """
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return None
    try:
        descriptor = _open_inside(directory, parts)
    except OSError:
        return None
    try:
        if offset < 0:
            offset = max(0, os.fstat(descriptor).st_size + offset)
        return _read(descriptor, offset, max(0, limit))
    finally:
        os.close(descriptor)


def _open_inside(directory: str, parts: list[str]) -> int:
    """Open component by component, so that none can be a link."""
    parent = os.open(directory, DIRECTORY_FLAGS)
    for part in parts[:-1]:
        try:
            child = os.open(part, DIRECTORY_FLAGS, dir_fd=parent)
        finally:
            os.close(parent)
        parent = child
    try:
        return untrusted.open_to_read(parts[-1], dir_fd=parent)
    finally:
        os.close(parent)


def _read(descriptor: int, offset: int, limit: int) -> bytes:
    pieces: list[bytes] = []
    while limit > 0 and (piece := os.pread(descriptor, limit, offset)):
        pieces.append(piece)
        offset += len(piece)
        limit -= len(piece)
    return b"".join(pieces)
