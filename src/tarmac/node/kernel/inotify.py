"""Events in directories, as the kernel reports them. Called by `treewatch`."""

from __future__ import annotations

import os
import struct
from contextlib import suppress
from typing import Iterator, NamedTuple

from tarmac.node.kernel import syscalls

_HEADER = struct.Struct("iIII")
_READ_BYTES = 64 * 1024


class Happening(NamedTuple):
    """One event: the watched directory, the kind (bits of `syscalls.IN_*`), and the name in the directory.

    The two halves of a rename have the same `cookie`.
    """

    watch: int
    mask: int
    cookie: int
    name: str


_MOST_LEFT = 16
_spare: list[int] = []
"""A released empty queue, reused for the next one: closing one takes the kernel milliseconds."""


class Inotify:
    """One queue of events. Raises OSError if the kernel refuses this user a (further) queue."""

    def __init__(self) -> None:
        self._handle = _spare.pop() if _spare else syscalls.inotify_open()
        self._watches: set[int] = set()

    def watch(self, directory: str, mask: int) -> int:
        """Report events in a directory from now on; a second call changes the mask. Raises OSError."""
        number = syscalls.inotify_watch(self._handle, directory, mask | syscalls.IN_ONLYDIR)
        self._watches.add(number)
        return number

    def happened(self) -> Iterator[Happening]:
        """All events since the last call, in order; never waits."""
        while self._handle >= 0:
            try:
                data = os.read(self._handle, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, cookie, length = _HEADER.unpack_from(data, at)
                name = data[at + _HEADER.size : at + _HEADER.size + length].rstrip(b"\0")
                at += _HEADER.size + length
                yield Happening(watch, mask, cookie, os.fsdecode(name))

    def fileno(self) -> int:
        """A descriptor to wait for, readable after an event; -1 when closed."""
        return self._handle

    def close(self) -> None:
        """Release the queue."""
        if self._handle >= 0:
            if _spare or len(self._watches) > _MOST_LEFT:
                os.close(self._handle)
            else:
                self._empty()
                _spare.append(self._handle)
            self._handle = -1

    def _empty(self) -> None:
        for number in self._watches:
            with suppress(OSError):  # the watched directory is gone
                syscalls.inotify_unwatch(self._handle, number)
        for _ in self.happened():
            pass
