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
    """One event: in which watched directory, what (bits of `syscalls.IN_*`), and to which name in it.

    The two halves of a rename have the same `cookie`.
    """

    watch: int
    mask: int
    cookie: int
    name: str


_MOST_LEFT = 16
_spare: list[int] = []
"""An empty queue that was given back, for the next one: it takes the kernel milliseconds to close one."""


class Inotify:
    """One queue of events. Raises OSError where the kernel gives no (more) of them to this user."""

    def __init__(self) -> None:
        self._handle = _spare.pop() if _spare else syscalls.inotify_open()
        self._watches: set[int] = set()

    def watch(self, directory: str, mask: int) -> int:
        """Tell from now on what happens in a directory; a second call changes the mask. Raises OSError."""
        number = syscalls.inotify_watch(self._handle, directory, mask | syscalls.IN_ONLYDIR)
        self._watches.add(number)
        return number

    def happened(self) -> Iterator[Happening]:
        """Everything since the last call, in order; never waits."""
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
        """What can be waited for: readable when something happened; -1 once closed."""
        return self._handle

    def close(self) -> None:
        """Give it back."""
        if self._handle >= 0:
            if _spare or len(self._watches) > _MOST_LEFT:
                os.close(self._handle)
            else:
                self._empty()
                _spare.append(self._handle)
            self._handle = -1

    def _empty(self) -> None:
        for number in self._watches:
            with suppress(OSError):  # what it watched is gone
                syscalls.inotify_unwatch(self._handle, number)
        for _ in self.happened():
            pass
