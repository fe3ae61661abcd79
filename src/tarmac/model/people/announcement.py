"""An announcement of the administrator to everyone who uses the servers of a database.

Stored by `store`, served by `server.announcing`.
"""

from msgspec import Struct

LONGEST_TEXT = 500


class Announcement(Struct, frozen=True, kw_only=True):
    """A text by `user`, announced at `at`; it is over at `until_at` (None: once it is cleared)."""

    text: str
    user: str
    at: float
    until_at: float | None = None
