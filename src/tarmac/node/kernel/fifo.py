"""Wakes another process through a FIFO, without ever waiting for that process.

Called by the runner and by engines.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from tarmac.node.kernel.handles import closing
from tarmac.node.kernel.system_users import as_server

RING = b"!"
"""A ring without a message: poll now."""


def ring(path: str, message: bytes = RING) -> None:
    """Write to the FIFO at `path` if a process listens. Only a hint: listeners also poll."""
    try:
        with as_server():
            handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return  # no process listens (ENXIO), or there is no FIFO
    with closing(handle), suppress(OSError):  # full, or the listener ended: it polls anyway
        if stat.S_ISFIFO(os.fstat(handle).st_mode):  # a run may have replaced it
            os.write(handle, message)


def listen(path: str) -> int:
    """Make the FIFO if it is missing, and open it for reading; -1 if the disk has none, or a run made a file.

    It is open for writing as well, so that it never reports the end of the last writer.
    """
    try:
        with suppress(FileExistsError):
            os.mkfifo(path, 0o600)
        handle = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return -1
    if stat.S_ISFIFO(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return -1


def drain(handle: int) -> bytes:
    """Read all waiting bytes."""
    heard = b""
    with suppress(BlockingIOError):
        while piece := os.read(handle, 4096):
            heard += piece
    return heard
