"""Waking another process through a FIFO, without ever waiting for that process.

Called by the runner and by engines.
"""

from __future__ import annotations

import os
import stat

RING = b"!"
"""A ring that says nothing but: look."""


def ring(path: str, message: bytes = RING) -> None:
    """Write to the FIFO at `path` if anybody listens. A hint only: listeners look by themselves, later."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return  # nobody listens (ENXIO), or there is no FIFO
    try:
        if stat.S_ISFIFO(os.fstat(handle).st_mode):  # a run may have put anything in its place
            os.write(handle, message)
    except OSError:
        pass  # full, or the listener left: either way it has been or will be told
    finally:
        os.close(handle)


def listen(path: str) -> int:
    """Make the FIFO where it is missing, and open it for reading; -1 where the disk has no FIFOs.

    Opened for writing too, so that it never reports that the last writer left.
    """
    try:
        os.mkfifo(path, 0o600)
    except FileExistsError:
        pass
    except OSError:
        return -1
    try:
        return os.open(path, os.O_RDWR | os.O_NONBLOCK)
    except OSError:
        return -1


def drain(handle: int) -> bytes:
    """Take out all that was written."""
    heard = b""
    try:
        while piece := os.read(handle, 4096):
            heard += piece
    except BlockingIOError:
        pass
    return heard
