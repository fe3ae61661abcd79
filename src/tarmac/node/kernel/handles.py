"""Open descriptors for the time of a block, locks by them, and forked processes that reply through one.

A lock is a `flock` of a file, which ends with the process that holds it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import Callable, Iterator, Optional


class closing:
    """The descriptor, closed at the end of the block."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __enter__(self) -> int:
        return self._handle

    def __exit__(self, *_: object) -> None:
        os.close(self._handle)


def flush(path: str | os.PathLike[str]) -> None:
    """Write a file, or the names in a directory, to the disk. Raises OSError."""
    with closing(os.open(path, os.O_RDONLY)) as handle:
        os.fsync(handle)


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


def fork(act: Callable[[], object]) -> int:
    """Fork a process that ends after `act`, with exit code 1 unless that sets another; returns its pid."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        finally:
            os._exit(1)
    return pid


def fork_to_reply(act: Callable[[int], object]) -> tuple[int, bytes]:
    """The pid of a forked process, and what `act` writes there to its descriptor, which exec closes."""
    hear, say = os.pipe()

    def reply() -> None:
        os.close(hear)
        act(say)

    pid = fork(reply)
    os.close(say)
    with open(hear, "rb") as heard:
        return pid, heard.read()
