"""The announcement on this server, and the header that carries it on answers. Made by `wiring`.

It is kept in memory, and read again from time to time where another server on the database may change it. A
server without one adds nothing to its answers.
"""

from collections.abc import Sequence
from urllib.parse import quote

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tarmac.api.operation import BASE
from tarmac.model.errors import InvalidInput
from tarmac.model.people.announcement import LONGEST_TEXT, Announcement
from tarmac.model.ports import Clock
from tarmac.store import SqlAnnouncements

READ_EVERY_S = 10.0
"""The period in which a server learns of an announcement on another server."""

_HEADER = b"tarmac-announcement"
_QUIET = frozenset({f"{BASE}/version", f"{BASE}/announcement"})
"""The paths whose answers have the announcement in their body."""


class Announcements:
    """The current announcement of a database."""

    def __init__(self, records: SqlAnnouncements, clock: Clock) -> None:
        self._records = records
        self._clock = clock
        self._latest = records.read()

    def read_again(self) -> None:
        """Learn of a change by another server."""
        self._latest = self._records.read()

    def current(self) -> Announcement | None:
        """The announcement, unless it is over."""
        latest = self._latest
        if latest is None or (latest.until_at is not None and latest.until_at <= self._clock.now()):
            return None
        return latest

    def announce(self, text: str, *, user: str, until_at: float | None) -> None:
        """Replace the announcement; an empty text clears it. Raises InvalidInput for a wrong text or time."""
        now, text = self._clock.now(), " ".join(text.split())
        if not text.isprintable() or len(text) > LONGEST_TEXT:
            raise InvalidInput(f"a text of at most {LONGEST_TEXT} printable characters is expected")
        if until_at is not None and until_at <= now:
            raise InvalidInput("the announcement would be over already", hint="give a later time")
        new = Announcement(text=text, user=user, at=now, until_at=until_at) if text else None
        self._records.replace(new)
        self._latest = new


class Announced:
    """An application whose answers carry the current announcement."""

    def __init__(self, app: ASGIApp, announcements: Announcements) -> None:
        self._app = app
        self._announcements = announcements

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        current = self._announcements.current()
        if current is None or scope.get("path") in _QUIET:
            await self._app(scope, receive, send)
            return
        header: Sequence[bytes] = (_HEADER, quote(current.text).encode())

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        await self._app(scope, receive, send_with_header)
