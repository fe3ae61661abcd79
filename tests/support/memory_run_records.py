"""`MemoryRunRecords`: a fake that passes the same suite as `SqlRunRecords`. Made by `MemoryStore`."""

from __future__ import annotations

from threading import Lock

from tarmac.model.run import Run
from tarmac.model.run_records import RunRecord, RunRecordKind
from tarmac.store.checks import storable


class MemoryRunRecords:
    """Implements `model.run_records.RunRecords` on the runs of a `MemoryStore`, under its lock."""

    def __init__(self, runs: dict[str, Run], lock: Lock) -> None:
        self._runs = runs
        self._lock = lock
        self._found: dict[tuple[str, str, str], RunRecord] = {}

    def put(self, record: RunRecord) -> bool:
        with self._lock:
            if record.run_id not in self._runs or not storable(record.name):
                return False
            self.keep(record)
            return True

    def keep(self, record: RunRecord) -> None:
        """Store a record of an existing run; the caller holds the lock of the store."""
        self._found[record.run_id, record.kind, record.name] = record

    def of(self, run_id: str, kind: RunRecordKind) -> list[RunRecord]:
        with self._lock:
            found = [each for each in self._live() if (each.run_id, each.kind) == (run_id, kind)]
        return sorted(found, key=lambda each: (each.at, each.name))

    def named(self, kind: RunRecordKind, name: str) -> list[RunRecord]:
        with self._lock:
            found = [each for each in self._live() if (each.kind, each.name) == (kind, name)]
        return sorted(found, key=lambda each: (each.at, each.run_id))

    def _live(self) -> list[RunRecord]:
        return [each for each in self._found.values() if each.run_id in self._runs]
