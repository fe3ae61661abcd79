"""What a run waits for before it may start: the ends of other runs.

A spec says it by the references that a user wrote (`Dependency`); the record of an accepted run by the ids
that these meant at that moment (`AwaitedRun`). A run can only wait for runs that were accepted before it: so
there are no circles.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Condition(StrEnum):
    """Which end of the other run is awaited (in the words of Slurm: afterok, afterany)."""

    COMPLETED = "completed"
    ENDED = "ended"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependency:
    """`run` is an id, a name, a prefix of an id or `@last`."""

    run: str
    condition: Condition = Condition.COMPLETED

    def __str__(self) -> str:
        return self.run if self.condition is Condition.COMPLETED else f"{self.run}:{self.condition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedRun:
    """A run whose end is awaited; `met` once it has ended so. It may be removed: so its `name` is kept."""

    run_id: str
    name: str
    condition: Condition = Condition.COMPLETED
    met: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.run_id})"
