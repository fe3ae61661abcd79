"""Room on the disk of a database that nobody else can take: given up a piece at a time when the disk is full.

Used by `database` before every transaction. A run that has filled the disk must not keep the control plane
from writing down that it is to stop: a piece is room for many such records.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

PIECE_BYTES = 1 << 20
PIECES = 8
LEAST_FREE_BYTES = 1 << 18
MAKE_AGAIN_S = 20.0


class Reserve:
    """Pieces of `directory`. Not for several threads at once."""

    def __init__(self, directory: Path, *, piece_bytes: int = PIECE_BYTES, pieces: int = PIECES) -> None:
        self._paths = [directory / str(number) for number in range(pieces)]
        self._piece_bytes = piece_bytes
        self._make_due = time.monotonic() + MAKE_AGAIN_S

    def look(self) -> None:
        """Give up a piece where the disk is full; make what is missing, now and then, where there is room."""
        try:
            found = os.statvfs(self._paths[0].parent.parent)
        except OSError:
            return
        free_bytes = found.f_bavail * found.f_frsize
        if free_bytes < LEAST_FREE_BYTES:
            self.give_up()
        elif time.monotonic() >= self._make_due:
            self._make_due = time.monotonic() + MAKE_AGAIN_S
            if free_bytes > 4 * len(self._paths) * self._piece_bytes:
                self.make()

    def make(self) -> None:
        """Make every piece that is missing."""
        with suppress(OSError):  # no room after all: the next look tries again
            self._paths[0].parent.mkdir(mode=0o700, exist_ok=True)
            for path in self._paths:
                if not path.exists():
                    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                    try:
                        os.posix_fallocate(handle, 0, self._piece_bytes)
                    finally:
                        os.close(handle)

    def give_up(self) -> bool:
        """Give one piece back to the disk; False when none is left."""
        for path in self._paths:
            with suppress(FileNotFoundError):
                path.unlink()
                return True
        return False
