"""Reserved disk space of a SQLite database. Used by `database` before transactions.

A run that has filled the disk must not keep the control plane from recording the stop of that run. Every
transaction first goes into the write-ahead log, which SQLite writes from its beginning again and again. So
the log gets its blocks while the disk has space: on a full disk a transaction changes only blocks that the
log already has.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from tarmac.node.kernel import syscalls

ROOM_BYTES = 16 << 20
"""About 4,000 pages, as many as one block of SQLite's index of the log holds; a stop takes some 20."""

DISK_SHARE = 4
LEAST_FREE_BYTES = 1 << 18
MAKE_AGAIN_S = 20.0


class Reserve:
    """The blocks of the write-ahead log at `wal`. Not for several threads at once."""

    def __init__(self, wal: Path) -> None:
        self._wal = wal
        self._make_due = 0.0

    def is_needed(self) -> bool:
        """Whether the disk is full: the rest of the log is for the records of runs that end."""
        return self._free_bytes() < LEAST_FREE_BYTES

    def look(self) -> None:
        """Allocate the log's blocks, now and then, if the disk has several times as many."""
        if time.monotonic() < self._make_due:
            return
        room_bytes = min(ROOM_BYTES, self._free_bytes() // DISK_SHARE)
        if room_bytes < LEAST_FREE_BYTES:
            return
        with suppress(OSError):  # no log before the first transaction, or an unsupported disk
            handle = os.open(self._wal, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                syscalls.reserve(handle, room_bytes)
                self._make_due = time.monotonic() + MAKE_AGAIN_S
            finally:
                os.close(handle)

    def _free_bytes(self) -> int:
        try:
            found = os.statvfs(self._wal.parent)
        except OSError:
            return LEAST_FREE_BYTES
        return found.f_bavail * found.f_frsize
