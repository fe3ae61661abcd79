"""Unix sockets by paths of any length: the kernel allows 107 bytes, so the directory is opened instead.

Called by the relay of a node and by sidecars.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_WAITING = 64


def listen(path: str) -> socket.socket:
    """Listen at a path, for this user alone, replacing an earlier listener. Raises OSError."""
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _short(path) as short:
            with suppress(FileNotFoundError):
                os.unlink(path)
            made.bind(short)
            os.chmod(path, 0o600)
        made.listen(_WAITING)
    except BaseException:
        made.close()
        raise
    return made


def connect(path: str, *, timeout_s: float) -> socket.socket:
    """Connect to the listener at a path; each later step may take `timeout_s`. Raises OSError."""
    made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    made.settimeout(timeout_s)
    try:
        with _short(path) as short:
            made.connect(short)
    except BaseException:
        made.close()
        raise
    return made


@contextmanager
def _short(path: str) -> Iterator[str]:
    directory, name = os.path.split(path)
    handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{name}"
    finally:
        os.close(handle)
