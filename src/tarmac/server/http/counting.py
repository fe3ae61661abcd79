"""Counts answered requests. Written by `auth.AuthMiddleware`, read for `/metrics`."""

import threading
from collections import Counter
from collections.abc import Mapping


class RequestCounts:
    """The numbers of answered requests, by method and status. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[tuple[str, ...]] = Counter()

    def note(self, method: str, status: int) -> None:
        """Count an answer."""
        with self._lock:
            self._counts[method, str(status)] += 1

    def counts(self) -> Mapping[tuple[str, ...], int]:
        """A copy of the counts."""
        with self._lock:
            return dict(self._counts)
