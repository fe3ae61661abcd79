"""Dependencies of a run on the ends of other runs. Read by `control`.

A spec has the references that a user wrote (`Dependency`); the record of an accepted run has the ids of those
runs (`AwaitedRun`). A run can only depend on runs that were accepted before it, so there are no cycles.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from tarmac.model.record import StoredRecord


class Condition(StrEnum):
    """The awaited end of the other run (in the words of Slurm: afterok, afterany)."""

    COMPLETED = "completed"
    ENDED = "ended"


class Dependency(StoredRecord, frozen=True, kw_only=True):
    """`run` is an id, a name, a prefix of an id or `@last`."""

    run: str
    condition: Condition = Condition.COMPLETED

    def __str__(self) -> str:
        return self.run if self.condition is Condition.COMPLETED else f"{self.run}:{self.condition}"


class AwaitedRun(Struct, frozen=True, kw_only=True):
    """A run whose end is awaited; `met` once it has ended so.

    `name` is stored because the run may be removed.
    """

    run_id: str
    name: str
    condition: Condition = Condition.COMPLETED
    met: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.run_id})"
