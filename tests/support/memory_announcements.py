"""`MemoryAnnouncements`: the record of the announcement as a fake that passes the same suite."""

from __future__ import annotations

from tarmac.model.announcement import Announcement


class MemoryAnnouncements:
    """Implements `server.announcing.AnnouncementRecords` in memory."""

    def __init__(self) -> None:
        self._only: Announcement | None = None

    def read(self) -> Announcement | None:
        return self._only

    def replace(self, new: Announcement | None) -> None:
        self._only = new
