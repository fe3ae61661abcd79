"""Reading files of an attempt directory, for whoever asks by name: nothing outside it can be reached.

The working directory inside belongs to the user's program, which may put any link there: none is followed.
"""

from __future__ import annotations

import os
from pathlib import Path

from tarmac.engines.attempts.layout import Layout
from tarmac.model.errors import NotFound
from tarmac.node.files import untrusted

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_file(layout: Layout, attempt_id: str, path: str, *, offset: int, limit: int) -> bytes:
    """At most `limit` bytes from `offset` of a file of an attempt; raises NotFound without one."""
    directory = layout.attempt(attempt_id)
    content = read_inside(directory, path, offset=offset, limit=limit) if directory else None
    if content is None:
        raise NotFound(f"attempt {attempt_id} has no file {path!r}")
    return content


def read_inside(directory: Path, path: str, *, offset: int, limit: int) -> bytes | None:
    """At most `limit` bytes from `offset` of a regular file below `directory`; None if there is none such."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return None
    try:
        descriptor = _open_inside(directory, parts)
    except OSError:
        return None
    try:
        return _read(descriptor, max(0, offset), max(0, limit))
    finally:
        os.close(descriptor)


def _open_inside(directory: Path, parts: list[str]) -> int:
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
