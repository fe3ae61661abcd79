"""Writes and lists files of an artifact store on this host, for a server on another machine.

Called by `operations`. A large file arrives in pieces; it becomes visible only when complete. Sidecars write
directly to the same store (`artifacts/versions/blobs.py`), and name their drafts in the same way.
"""

from __future__ import annotations

import os
from typing import Any

DRAFT = ".draft-"
"""The prefix of unfinished files, which listings omit."""

_NEW = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def write(path: str, begin: int, content: bytes, *, last: bool) -> None:
    """Write a piece of a file, in order from 0; the last piece makes it visible. Raises OSError."""
    directory, name = os.path.split(path)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    draft = os.path.join(directory, f"{DRAFT}{name}")
    handle = os.open(draft, _NEW | (0 if begin else os.O_TRUNC), 0o600)
    try:
        while content:
            written = os.pwrite(handle, content, begin)
            begin, content = begin + written, content[written:]
        if last:
            os.fdatasync(handle)
    finally:
        os.close(handle)
    if last:
        os.replace(draft, path)


def listing(directory: str, prefix: str) -> list[list[Any]]:
    """Every file below `prefix` in a directory: path in the directory, bytes, and modification time.

    Raises OSError.
    """
    found: list[list[Any]] = []
    for place, _, names in os.walk(os.path.join(directory, prefix), onerror=_raise_unless_gone):
        for name in names:
            if not name.startswith(DRAFT):
                path = os.path.join(place, name)
                try:
                    facts = os.lstat(path)
                except FileNotFoundError:
                    continue
                found.append([os.path.relpath(path, directory), facts.st_size, facts.st_mtime])
    return found


def _raise_unless_gone(error: OSError) -> None:
    """Ignore a missing directory, which is empty; raise the error of an unreadable one."""
    if not isinstance(error, FileNotFoundError):
        raise error
