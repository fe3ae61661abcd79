"""Calls of providers and machines, which may take minutes: in threads, one at a time of a key.

Used by `renting`. Tests do them at once (`Calls`).
"""

import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import Lock, Thread

from tarmac.model.burst.provider import RentRefused
from tarmac.model.errors import TarmacError, Unavailable

log = logging.getLogger(__name__)

MOST_THREADS = 100
"""The maximum of calls at the same time; others wait for a thread."""


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
    """Makes calls in threads; `ready` is called after each. One that hangs ends with the process."""

    def __init__(self, ready: Callable[[], None]) -> None:
        self._ready, self._lock = ready, Lock()
        self._busy: set[str] = set()
        self._waiting: deque[tuple[str, Callable[[], None]]] = deque()
        self._threads = 0

    def begin(self, key: str, call: Callable[[], None]) -> None:
        with self._lock:
            if key in self._busy:
                return
            self._busy.add(key)
            self._waiting.append((key, call))
            if self._threads == MOST_THREADS:
                return
            self._threads += 1
        Thread(target=self._make_calls, name="burst", daemon=True).start()

    def busy(self, key: str) -> bool:
        return key in self._busy

    def _make_calls(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._threads -= 1
                    return
                key, call = self._waiting.popleft()
            self._do(key, call)

    def _do(self, key: str, call: Callable[[], None]) -> None:
        try:
            call()
        except TarmacError as error:
            log.warning("%s: %s", key, error)
        except Exception:
            log.exception("%s", key)
        finally:
            with self._lock:
                self._busy.discard(key)
            self._ready()
