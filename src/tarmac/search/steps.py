"""The steps that a method of search requests from `Search`, which numbers trials.

Used by `searching` and by every method.
"""

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
"""The request of a method: an operation, or a trial to begin that has no number and no parameters yet."""


class Sampler(Protocol):
    """The source of trials' parameters, which gets the results of earlier trials."""

    def draw(self, trial: int) -> tuple[dict[str, Any], int]:
        """The parameters of the next trial, and a seed for its own use."""
        ...

    def validation(self, trial: int, length: float, metric: float, /) -> None:
        """Handle the report of a trial that was not closed; the smaller `metric` is better."""
        ...

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> None:
        """Handle the end of a trial; `closed`: on request of its method."""
        ...

    @property
    def state(self) -> dict[str, Any]:
        """Its state, under names that `Search` does not use."""
        ...

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the sampler's part of a search's whole state."""
        ...


class Method(Protocol):
    """One method of search, for trials by number."""

    def begin(self) -> list[Step]: ...

    def begun(self, trial: int, bracket: int, /) -> None:
        """Handle the number of a trial that the method requested."""
        ...

    def validation(self, trial: int, length: float, metric: float, /) -> list[Step]:
        """Handle the report of a trial that was not closed; the smaller `metric` is better."""
        ...

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> list[Step]:
        """Handle the end of a trial; `closed`: on request of this method."""
        ...

    @property
    def state(self) -> dict[str, Any]: ...

    def restore(self, state: Mapping[str, Any]) -> None: ...

    @property
    def trials(self) -> int:
        """The number of its trials, without those that replace invalid ones."""
        ...
