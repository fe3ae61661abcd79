"""What a search is told, what it asks for, and the port that every kind of search meets.

Events go in, in the order in which they happened; operations come out, to be carried out in theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class TrialEnd(StrEnum):
    """How a trial ended. INVALID: it says that its parameters make no sense, and another takes its place."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Validation:
    """A trial has come to `length` and reports the metric of the search."""

    trial: int
    length: float
    metric: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A trial has ended, by itself or as it was asked to."""

    trial: int
    how: TrialEnd


Event = Validation | Ended


@dataclass(frozen=True, slots=True)
class Create:
    """Begin trial `trial` with these parameters. It goes to `length`, or to its own end (None)."""

    trial: int
    parameters: Mapping[str, Any] = field(hash=False)
    seed: int = 0
    length: int | None = None


@dataclass(frozen=True, slots=True)
class GoOn:
    """Let a trial that came to its length go on to another."""

    trial: int
    length: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A trial has come to its length: it leaves its slots until it is let go on, or stopped."""

    trial: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End a trial: the others are better, or it has come to the end of the search."""

    trial: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The search is over: every trial has ended. `end`: how, where all ended alike; else COMPLETED."""

    end: TrialEnd = TrialEnd.COMPLETED


Operation = Create | GoOn | Wait | Stop | Finish


class Searcher(Protocol):
    """A search under way. Pure: the same events give the same operations, also after `state` was restored."""

    def begin(self) -> list[Operation]:
        """The first operations, once."""
        ...

    def handle(self, event: Event) -> list[Operation]:
        """What follows from an event; an event of a trial that has ended is ignored."""
        ...

    def reopen(self, trial: int) -> None:
        """A trial that had ended runs again: its end did not count."""
        ...

    @property
    def state(self) -> Mapping[str, Any]:
        """All there is to keep, as JSON."""
        ...

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        ...
