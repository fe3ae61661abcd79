"""What a method of search says to `Search`, which numbers trials. Used by `searching` and by every method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tarmac.search.moves import GoOn, Stop, TrialEnd, Wait


@dataclass(frozen=True, slots=True)
class Begin:
    """One more trial, of this bracket, which goes to `length` (None: to its own end)."""

    length: int | None = None
    bracket: int = 0


Step = Begin | GoOn | Wait | Stop
"""What a method asks for: operations, but that a trial which begins has no number and no parameters yet."""


class Sampler(Protocol):
    """Where the parameters of trials come from; told what became of earlier ones."""

    def draw(self, trial: int) -> tuple[dict[str, Any], int]:
        """The parameters of the next trial, and a seed for its own use."""
        ...

    def validation(self, trial: int, length: float, metric: float, /) -> None:
        """A trial that was not closed reports; the smaller `metric` is better."""
        ...

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> None:
        """A trial has ended; `closed`: as its method asked."""
        ...

    @property
    def state(self) -> dict[str, Any]:
        """What it keeps, under names that are not those of `Search`."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` was, of a search's whole state."""
        ...


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
