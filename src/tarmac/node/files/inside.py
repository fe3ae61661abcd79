"""Reads files below a directory, by paths from requests: nothing outside it can be reached.

The working directory of an attempt belongs to the user's program, which may create any link there: none is
followed. Called by engines, and on the hosts that they reach.
"""

from __future__ import annotations

import errno
import os
import stat
from itertools import islice
from typing import Optional

from tarmac.node.files import untrusted

DIRECTORY_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_inside(directory: str, path: str, *, offset: int, limit: int) -> Optional[bytes]:
    """At most `limit` bytes from `offset` of a regular file below `directory`; None if there is none.

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


def open_inside(directory: str, path: str) -> int:
    """A descriptor of a regular file below `directory`, which may itself be a link. Raises OSError."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return _open_inside(os.path.realpath(directory), parts)


def list_inside(directory: str, path: str, *, limit: int) -> Optional[list[list[object]]]:
    """The entries of a directory below `directory` (""; itself), at most `limit`; None if there is none.

    Each as name, kind (`file`, `directory`, `link`, `other`), bytes, and modification time.
    """
    parts = path.split("/") if path else []
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        return None
    try:
        handle = os.open(directory, DIRECTORY_FLAGS)
        for part in parts:
            try:
                child = os.open(part, DIRECTORY_FLAGS, dir_fd=handle)
            finally:
                os.close(handle)
            handle = child
    except (OSError, ValueError):
        return None
    try:
        with os.scandir(handle) as entries:
            return sorted(filter(None, map(_entry, islice(entries, limit))), key=lambda entry: str(entry[0]))
    finally:
        os.close(handle)


def _entry(entry: os.DirEntry[str]) -> list[object]:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return []  # removed since
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    name = entry.name.encode("utf-8", "replace").decode()
    return [name, kinds.get(stat.S_IFMT(found.st_mode), "other"), found.st_size, found.st_mtime]


def _open_inside(directory: str, parts: list[str]) -> int:
    """Open component by component, so that no link is followed."""
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
