"""Waits for one descriptor. Called to wait for the end of a process or for data in a pipe or socket.

Uses poll(2): select(2) takes no descriptor above 1023, and a server with many followers has such.
"""

from __future__ import annotations

import select
from typing import Protocol


class _HasDescriptor(Protocol):
    def fileno(self) -> int: ...


def readable(source: int | _HasDescriptor, within_s: float | None = None) -> bool:
    """Wait until a descriptor is readable (a pidfd: its process has ended); returns whether it is."""
    return _ready(source, select.POLLIN, within_s)


def writable(source: int | _HasDescriptor, within_s: float | None = None) -> bool:
    """Wait until a descriptor is writable, or permanently closed; returns whether it is."""
    return _ready(source, select.POLLOUT, within_s)


def _ready(source: int | _HasDescriptor, event: int, within_s: float | None) -> bool:
    poll = select.poll()
    poll.register(source, event)
    return bool(poll.poll(None if within_s is None else max(0.0, within_s) * 1000))
