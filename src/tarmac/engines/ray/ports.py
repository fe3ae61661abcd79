"""Free ports of a node for workers to connect, requested in batches: many runs may start at once.

Used by `node`. A port was free when it was requested, a moment ago at most; each is given once.
"""

import time
from collections.abc import Callable, Collection
from threading import Lock

AT_ONCE = 16
FRESH_S = 1.0
"""After this time free ports may be in use, and are requested again."""


class FreePorts:
    """The free ports of one node; `find` requests a number of free ones, except those taken. Thread-safe."""

    def __init__(
        self, find: Callable[[Collection[int], int], list[int]], *, fresh_s: float = FRESH_S
    ) -> None:
        self._find = find
        self._fresh_s = fresh_s
        self._lock = Lock()
        self._found: list[int] = []
        self._found_at = 0.0

    def take(self, taken: Collection[int]) -> int:
        """A free port that is not taken. Raises as `find`."""
        with self._lock:
            fresh = time.monotonic() - self._found_at < self._fresh_s
            self._found = [port for port in self._found if fresh and port not in taken]
            if not self._found:
                self._found_at = time.monotonic()
                self._found = self._find(taken, AT_ONCE)
            return self._found.pop()
