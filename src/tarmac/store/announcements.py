"""`SqlAnnouncements`: the one announcement of a database, as JSON. Made by `SqlStore`, on its database."""

from sqlalchemy import delete, select

from tarmac.model.people.announcement import Announcement
from tarmac.store.database import Database
from tarmac.store.rows import body, read_record
from tarmac.store.schema import announcement
from tarmac.store.statements import put

_ONLY = 1
_READ = select(announcement.c.body)
_CLEAR = delete(announcement)


class SqlAnnouncements:
    """Reads and replaces the announcement."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._put = put(announcement, database.dialect)

    def read(self) -> Announcement | None:
        """The announcement, also one that is over; None if there is none."""
        found = self._database.rows(_READ)
        return read_record(Announcement, found[0].body) if found else None

    def replace(self, new: Announcement | None) -> None:
        """Store another announcement, or none."""
        with self._database.writing() as connection:
            if new is None:
                connection.execute(_CLEAR)
            else:
                connection.execute(self._put, {"id": _ONLY, "body": body(new)})
