"""Serial writes, counted, with failures that a test sets. Used by `MemoryStore` and its parts."""

from __future__ import annotations

from threading import Lock
from types import TracebackType

from tarmac.model.errors import StorageFull


class CountedWrites:
    """A context manager around every write: serial, counted, and failing if a test sets it so."""

    def __init__(self, lock: Lock) -> None:
        self.begun = 0
        self.disk_full = False
        self.failures_before: dict[int, BaseException] = {}
        self.failures_after: dict[int, BaseException] = {}
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            self.begun += 1
            if self.begun in self.failures_before:
                raise self.failures_before.pop(self.begun)
            if self.disk_full:
                raise StorageFull("the disk of the database in memory is full: nothing was changed")
        except BaseException:
            self._lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        failure = self.failures_after.pop(self.begun, None) if error is None else None
        self._lock.release()
        if failure is not None:
            raise failure
