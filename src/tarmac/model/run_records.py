"""Records that the code of a run stores with the server by name: checkpoints, metadata, progress.

Requested by `systems.determined.gateway`, whose library stores such records with its master.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Protocol

from msgspec import Struct, field


class RunRecordKind(StrEnum):
    """CHECKPOINT: by its UUID. METADATA: of the run. SEARCH: the length that a trial has completed."""

    CHECKPOINT = "checkpoint"
    METADATA = "metadata"
    SEARCH = "search"


class RunRecord(Struct, frozen=True, kw_only=True):
    """A record: `name` is unique within a run and kind, `attempt` wrote it last, `body` is JSON."""

    run_id: str
    kind: RunRecordKind
    name: str
    attempt: int
    at: float
    body: Mapping[str, Any] = field(default_factory=dict)


class RunRecords(Protocol):
    """The durable store of these records.

    Errors are those of `ports.Store`; a removed run loses its records.
    """

    def put(self, record: RunRecord) -> bool:
        """Store a record, in place of one of that run, kind and name; False if there is no such run."""
        ...

    def of(self, run_id: str, kind: RunRecordKind) -> list[RunRecord]:
        """The records of a run, oldest first; of the same time by name."""
        ...

    def named(self, kind: RunRecordKind, name: str) -> list[RunRecord]:
        """The records of a name, of any run, in the same order."""
        ...
