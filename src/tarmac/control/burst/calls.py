"""Calls of providers and machines, which may take minutes: each in its own thread, one at a time of a key.

Used by `renting`. Tests do them at once (`Calls`).
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread

from tarmac.model.burst.provider import RentRefused
from tarmac.model.errors import TarmacError, Unavailable

log = logging.getLogger(__name__)


class Calls:
    """Begins calls by key; this one does each at once."""

    def begin(self, key: str, call: Callable[[], None]) -> None:  # noqa: ARG002 threads have names
        """Begin a call, unless one with its key is at work."""
        with suppress(Unavailable, RentRefused):
            call()

    def busy(self, key: str) -> bool:  # noqa: ARG002 threads have names
        """Whether a call with this key is at work."""
        return False


class Threads(Calls):
    """A thread for each call; `ready` is called after its end. One that hangs ends with the process."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready, self._lock = ready, Lock()
        self._busy: set[str] = set()

    def begin(self, key: str, call: Callable[[], None]) -> None:
        with self._lock:
            if key in self._busy:
                return
            self._busy.add(key)
        Thread(target=self._do, args=(key, call), name=f"burst-{key}", daemon=True).start()

    def busy(self, key: str) -> bool:
        return key in self._busy

    def _do(self, key: str, call: Callable[[], None]) -> None:
        try:
            call()
        except TarmacError as error:
            log.warning("%s: %s", key, error)
        finally:
            with self._lock:
                self._busy.discard(key)
            self._ready()
