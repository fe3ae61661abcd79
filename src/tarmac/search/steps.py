"""What a method of search says to `Search`, which numbers trials. Used by `searching` and by every method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tarmac.search.moves import TrialEnd


@dataclass(frozen=True, slots=True)
class Begin:
    """One more trial, of this bracket, which goes to `length` (None: to its own end)."""

    length: int | None = None
    bracket: int = 0


@dataclass(frozen=True, slots=True)
class Promote:
    """A trial goes on to this length."""

    trial: int
    length: int


@dataclass(frozen=True, slots=True)
class Rest:
    """A trial waits where it is."""

    trial: int


@dataclass(frozen=True, slots=True)
class Close:
    """A trial is ended."""

    trial: int


Step = Begin | Promote | Rest | Close


class Method(Protocol):
    """One method of search, about trials by number."""

    def begin(self) -> list[Step]: ...

    def begun(self, trial: int, bracket: int, /) -> None:
        """A trial that was asked for has this number."""
        ...

    def validation(self, trial: int, length: float, metric: float, /) -> list[Step]:
        """A trial that was not closed reports; the smaller `metric` is better."""
        ...

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> list[Step]:
        """A trial has ended; `closed`: as this method asked."""
        ...

    @property
    def state(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> None: ...

    @property
    def trials(self) -> int:
        """How many trials it comes to, those in place of invalid ones not counted."""
        ...
