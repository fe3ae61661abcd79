"""What happens in directories, as the kernel tells it. Called by `treewatch`."""

from __future__ import annotations

import os
import struct
from typing import Iterator, NamedTuple

from tarmac.node import syscalls

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


class Inotify:
    """One queue of events. Raises OSError where the kernel gives no (more) of them to this user."""

    def __init__(self) -> None:
        self._handle = syscalls.inotify_open()

    def watch(self, directory: str, mask: int) -> int:
        """Tell from now on what happens in a directory; a second call changes the mask. Raises OSError."""
        return syscalls.inotify_watch(self._handle, directory, mask | syscalls.IN_ONLYDIR)

    def happened(self) -> Iterator[Happening]:
        """Everything since the last call, in order; never waits."""
        while self._handle >= 0:
            try:
                told = os.read(self._handle, _READ_BYTES)
            except BlockingIOError:
                return
            at = 0
            while at < len(told):
                watch, mask, cookie, length = _HEADER.unpack_from(told, at)
                name = told[at + _HEADER.size : at + _HEADER.size + length].rstrip(b"\0")
                at += _HEADER.size + length
                yield Happening(watch, mask, cookie, os.fsdecode(name))

    def fileno(self) -> int:
        """What can be waited for: readable when something happened; -1 once closed."""
        return self._handle

    def close(self) -> None:
        """Give it back."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1
