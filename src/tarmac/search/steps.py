"""The steps that a method of search requests from `Search`, which numbers trials.

Used by `searching` and by every method, as are the functions that pack the numbers of a saved search.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping
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


_NUMBER_BYTES = 8
_TRIAL_BYTES = 4


def pack_numbers(values: Collection[float]) -> str:
    """Encode floating-point numbers exactly."""
    return b64encode(struct.pack(f"<{len(values)}d", *values)).decode()


def unpack_numbers(text: str) -> list[float]:
    """The inverse of `pack_numbers`."""
    data = b64decode(text)
    return list(struct.unpack(f"<{len(data) // _NUMBER_BYTES}d", data))


def pack_trials(trials: Iterable[int]) -> str:
    """Encode numbers of trials, or other whole numbers from 0, below 2**32."""
    values = tuple(trials)
    return b64encode(struct.pack(f"<{len(values)}I", *values)).decode()


def unpack_trials(text: str) -> list[int]:
    """The inverse of `pack_trials`."""
    data = b64decode(text)
    return list(struct.unpack(f"<{len(data) // _TRIAL_BYTES}I", data))
