"""Calls a clean-up function periodically, in its own thread. For artifacts, code and attempts."""

import logging
import threading
from collections.abc import Callable

from tarmac.model.errors import TarmacError

log = logging.getLogger(__name__)


class Janitor:
    """Calls `tidy` every `every_s` between `start` and `stop`, also after a failed call.

    It first calls `begin`, with the event that `stop` sets; `what` names the work in the log.
    """

    def __init__(
        self,
        what: str,
        tidy: Callable[[], None],
        *,
        every_s: float = 3_600.0,
        begin: Callable[[threading.Event], None] = lambda _ending: None,
    ) -> None:
        self._what = what
        self._tidy = tidy
        self._every_s = every_s
        self._begin = begin
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._tidy_again, name=f"tarmac-{what}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wait for it."""
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()

    def _tidy_again(self) -> None:
        self._begin(self._ending)
        while not self._ending.wait(self._every_s):
            try:
                self._tidy()
            except (TarmacError, OSError) as error:
                log.warning("%s could not be cleared up: %s", self._what, error)
            except Exception:  # a bug or damaged data must not end the thread
                log.exception("clearing up %s failed", self._what)
