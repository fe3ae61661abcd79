"""Limits the disk space of an unpacked image to leave some to others. Called by `unpacking`."""

from __future__ import annotations

import os

from tarmac.node.container import failures
from tarmac.node.container.failures import ImageProblem
from tarmac.node.container.progress import mebibytes

_PART = 20
_MOST_BYTES = 1024**3
_ENTRY_BYTES = 4096
_LOOK_EVERY_BYTES = 1024**2


class Room:
    """The space on the disk of `directory`, in which a layer is made."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._unseen_bytes = 0

    def spend(self, size_bytes: int = _ENTRY_BYTES) -> None:
        """Count bytes about to be written, and check the disk at intervals. Raises the errors of `check`."""
        self._unseen_bytes += size_bytes
        if self._unseen_bytes >= _LOOK_EVERY_BYTES:
            self._unseen_bytes = 0
            self.check()

    def check_size(self, size_bytes: int) -> None:
        """Raise ImageProblem for a file that this disk could not hold even if it were empty."""
        found = os.statvfs(self._directory)
        if size_bytes > found.f_blocks * found.f_frsize:
            message = f"the image has a file of {mebibytes(size_bytes)}, more than the disk of "
            raise ImageProblem(failures.DISK_FULL, message + os.path.dirname(self._directory))

    def check(self) -> None:
        """Raise ImageProblem if less than a twentieth of the disk, at most 1 GiB, remains for others."""
        found = os.statvfs(self._directory)
        kept_bytes = min(found.f_blocks * found.f_frsize // _PART, _MOST_BYTES)
        if found.f_bavail * found.f_frsize < kept_bytes + _LOOK_EVERY_BYTES:
            self._refuse(f"{mebibytes(kept_bytes)} of that disk")
        if found.f_files > 0 and found.f_favail < found.f_files // _PART:  # some disks have no such limit
            self._refuse(f"room for {found.f_files // _PART:,} files on that disk")

    def _refuse(self, kept: str) -> None:
        place = os.path.dirname(self._directory)
        message = f"the image does not fit into {place}: unpacked, it would take the last {kept}"
        raise ImageProblem(failures.DISK_FULL, message, failures.MAKE_ROOM)
