"""Locks between processes: `flock` of a file, which ends with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import Callable, Iterator, Optional

from tarmac.node.kernel.handles import closing


@contextmanager
def locked(
    path: str, *, shared: bool = False, wait: bool = True, rest: Optional[Callable[[], None]] = None
) -> Iterator[bool]:
    """Hold the lock of a file, which is made if it is missing. Raises OSError.

    `rest` is called between tries. Without `wait`: yields whether it succeeded at once.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    how = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    with closing(handle):
        mine = try_lock(handle, how)
        while wait and rest is not None and not mine:
            rest()
            mine = try_lock(handle, how)
        if wait and not mine:
            fcntl.flock(handle, how)
        yield wait or mine


def try_lock(handle: int, how: int) -> bool:
    """Lock an open file, exclusively or shared, unless another process prevents it now."""
    try:
        fcntl.flock(handle, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
