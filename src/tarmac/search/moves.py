"""The events and operations of a search, and the port of every kind of search. Used by `control`.

Events come in the order in which they happened; operations are to be carried out in theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol


class TrialEnd(StrEnum):
    """How a trial ended.

    INVALID: it reports that its parameters make no sense, and another takes its place.
    """

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    INVALID = "invalid"


@dataclass(frozen=True, slots=True)
class Validation:
    """A trial has reached `length` and reports the metric of the search."""

    trial: int
    length: float
    metric: float


@dataclass(frozen=True, slots=True)
class Ended:
    """A trial has ended, by itself or on request."""

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
    """Let a trial that reached its length continue to another."""

    trial: int
    length: int


@dataclass(frozen=True, slots=True)
class Wait:
    """A trial has reached its length: it leaves its slots until it may continue, or is stopped."""

    trial: int


@dataclass(frozen=True, slots=True)
class Stop:
    """End a trial: others are better, or it has reached the end of the search."""

    trial: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The search is over: every trial has ended. `end` is how, if all ended alike; otherwise COMPLETED."""

    end: TrialEnd = TrialEnd.COMPLETED


Operation = Create | GoOn | Wait | Stop | Finish


class Searcher(Protocol):
    """A search in progress. Pure: equal events give equal operations, also after `state` was restored."""

    def begin(self) -> list[Operation]:
        """The first operations; called once."""
        ...

    def handle(self, event: Event) -> list[Operation]:
        """The operations after an event; an event of a trial that has ended is ignored."""
        ...

    def reopen(self, trial: int) -> None:
        """Open a trial again whose end did not count."""
        ...

    @property
    def state(self) -> Mapping[str, Any]:
        """The whole state, as JSON."""
        ...

    @property
    def progress(self) -> float:
        """From 0 to 1."""
        ...
