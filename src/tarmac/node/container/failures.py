"""The reasons why an image cannot be used. Raised in this package, for the hook `image` to report."""

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
"""The hint for a full disk."""


class ImageProblem(Exception):
    """The image cannot be used: `kind` is one of the words above, `hint` a remedy."""

    def __init__(self, kind: str, message: str, hint: Optional[str] = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint

    @property
    def passing(self) -> bool:
        """Whether a retry may succeed: the run is not at fault."""
        return self.kind in (UNREACHABLE, DISK_FULL)
