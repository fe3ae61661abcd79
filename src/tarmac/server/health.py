"""Checks the database for damage at every start, before the server adds data to it.

Made by `wiring`. It reads a small file at once, and a large file in a thread during operation. If the thread
finds damage, it ends the server and leaves a note: the next start checks first.
"""

import contextlib
import logging
import threading
from collections.abc import Callable

from tarmac.model.errors import TarmacError
from tarmac.model.home import Home
from tarmac.store import SqlStore

AT_ONCE_BYTES = 4 << 20
"""A file up to this size takes a few milliseconds to read."""

LIMIT_S = 300.0

log = logging.getLogger(__name__)


class DatabaseCheck:
    """One check of the database of a home."""

    def __init__(self, home: Home, store: SqlStore, *, at_once_bytes: int = AT_ONCE_BYTES) -> None:
        self._at_once_bytes = at_once_bytes
        self._home = home
        self._store = store
        self._ending = threading.Event()
        self._on_damage: Callable[[], None] = self._ending.set
        self._thread = threading.Thread(target=self._look, name="tarmac-check", daemon=True)
        self._done = False

    def before_start(self) -> None:
        """Raise TarmacError for a damaged small file, or for a file with a note that is still damaged."""
        noted = self._home.damage.exists()
        if not noted and self._store.size_bytes > self._at_once_bytes:
            return
        self._done = True
        found = self._store.damage(limit_s=LIMIT_S)
        if found is not None:
            raise self._error(found)
        self._home.damage.unlink(missing_ok=True)

    def start(self, *, on_damage: Callable[[], None]) -> None:
        """Check a large file in a thread."""
        self._on_damage = on_damage
        if not self._done:
            self._thread.start()

    def stop(self) -> None:
        """Stop the check."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _look(self) -> None:
        found = self._store.damage(limit_s=LIMIT_S, proceed=lambda: not self._ending.is_set())
        if found is None:
            return
        log.error("%s", self._error(found))
        with contextlib.suppress(OSError):
            self._home.damage.write_text(f"{found}\n")
        self._on_damage()

    def _error(self, found: str) -> TarmacError:
        return TarmacError(
            f"the database {self._store.name} is damaged: {found}",
            hint="bring back a copy of it, or save what can be read: sqlite3 tarmac.db .recover | sqlite3 "
            "saved.db, and put that in its place; what runs goes on meanwhile",
        )
