"""What the code of a run keeps with the server by name: checkpoints it reported, metadata, how far it got.

Asked for by `server.determined`, whose library keeps such things with its master.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class RunRecordKind(StrEnum):
    """CHECKPOINT: by its UUID. METADATA: of the run. SEARCH: the length that a trial has completed."""

    CHECKPOINT = "checkpoint"
    METADATA = "metadata"
    SEARCH = "search"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """A record: `name` is its own within a run and kind, `attempt` wrote it last, `body` is JSON."""

    run_id: str
    kind: RunRecordKind
    name: str
    attempt: int
    at: float
    body: Mapping[str, Any] = field(default_factory=dict)


class RunRecords(Protocol):
    """The durable record of them. Errors are those of `ports.Store`; they go when their run is removed."""

    def put(self, record: RunRecord) -> bool:
        """Keep a record, in place of one of that run, kind and name; False where there is no such run."""
        ...

    def of(self, run_id: str, kind: RunRecordKind) -> list[RunRecord]:
        """Those of a run, oldest first; of the same time by name."""
        ...

    def named(self, kind: RunRecordKind, name: str) -> list[RunRecord]:
        """Those of a name, of any run, likewise."""
        ...
