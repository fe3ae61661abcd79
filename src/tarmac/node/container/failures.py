"""Why an image cannot be used. Raised by the modules of this folder, for the hook `image` to report."""

from __future__ import annotations

from typing import Optional

UNKNOWN_IMAGE = "unknown image"
UNKNOWN_TAG = "unknown tag"
CREDENTIALS = "credentials"
UNREACHABLE = "unreachable"
DISK_FULL = "disk full"
ARCHITECTURE = "architecture"
DAMAGED = "damaged"
REFUSED = "refused"

MAKE_ROOM = "remove images that nobody needs: see `tarmac images`"
"""What to do about a disk that is full."""


class ImageProblem(Exception):
    """The image cannot be used: `kind` is one of the words above, `hint` what to do about it."""

    def __init__(self, kind: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint

    @property
    def passing(self) -> bool:
        """Whether another try may have another end: that is no fault of the run's."""
        return self.kind in (UNREACHABLE, DISK_FULL)
