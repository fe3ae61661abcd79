"""Open descriptors for the time of a block, and forked processes that reply through one."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Callable, Iterator


@contextmanager
def closing(handle: int) -> Iterator[int]:
    """The descriptor, closed at the end of the block."""
    try:
        yield handle
    finally:
        os.close(handle)


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
