"""Bounds the number of costly steps of logins at one time. Used by `passwords` and `identity_provider`."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import BoundedSemaphore

from tarmac.model.errors import Unavailable

WAIT_S = 5.0


class Turns:
    """A few threads at a time; the others wait a little, and then get Unavailable."""

    def __init__(self, at_once: int) -> None:
        self._slots = BoundedSemaphore(at_once)

    @contextmanager
    def take(self) -> Iterator[None]:
        """Take a turn until the end of the block."""
        if not self._slots.acquire(timeout=WAIT_S):
            raise Unavailable("too many users log in at the moment", hint="try again")
        try:
            yield
        finally:
            self._slots.release()
