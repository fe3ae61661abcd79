"""Small files of the kernel, in /proc and /sys. Called by `limits`, `memory`, `namespaces` and `procfs`.

Read without Python's file objects, which cost more than the reading: a runner reads a dozen of them.
"""

from __future__ import annotations

import os

_STEP_BYTES = 16 * 1024


def content(path: str) -> bytes:
    """The content of a file; raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pieces = []
        while piece := os.read(handle, _STEP_BYTES):
            pieces.append(piece)
        return b"".join(pieces)
    finally:
        os.close(handle)


def lines(path: str) -> list[str]:
    """The lines of a file; none if it is missing or unreadable."""
    try:
        return content(path).decode("utf-8", "replace").splitlines()
    except OSError:
        return []
