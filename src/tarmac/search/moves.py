"""The events and operations of a search, the simplest method, and the port of samplers. Used by `control`.

Events come in the order in which they happened; operations are to be carried out in theirs. A method requests
steps from `Search`, which numbers trials; the functions at the end pack the numbers of a saved search.
"""

import struct
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Begin:
    """One more trial, which goes to `length` (None: to its own end)."""

    length: int | None = None


Step = Begin | GoOn | Wait | Stop
"""The request of a method: an operation, or a trial to begin that has no number and no parameters yet."""


class Sampler(Protocol):
    """The source of trials' parameters, which gets the results of earlier trials."""

    def draw(self, trial: int) -> tuple[dict[str, Any], int]:
        """The parameters of the next trial, and a seed for its own use."""

    def validation(self, trial: int, length: float, metric: float, /) -> bool:
        """Handle the report of a trial that was not closed; returns whether to end the trial early.

        The smaller `metric` is better.
        """

    def ended(self, trial: int, how: TrialEnd, closed: bool, /) -> None:
        """Handle the end of a trial; `closed`: on request of the search."""

    @property
    def state(self) -> dict[str, Any]:
        """Its state, under names that `Search` does not use."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore the sampler's part of a search's whole state."""


class Method:
    """The simplest method: a number of trials, `concurrent` of them at once, which all go to `length`.

    `trials` does not count those that replace invalid ones; with `replaces` there are such (random, not
    grid). Other methods decide more about the trials, which they know by number.
    """

    def __init__(self, trials: int, *, concurrent: int, length: int | None, replaces: bool = True) -> None:
        self.trials = trials
        self._concurrent = concurrent
        self._length = length
        self._replaces = replaces
        self._left = trials

    def begin(self) -> list[Step]:
        """The first steps."""
        return [step for _ in range(self._concurrent) for step in self._next()]

    def begun(self, _trial: int, /) -> None:
        """Handle the number of a trial that the method requested."""

    def validation(self, _trial: int, _length: float, _metric: float, /) -> list[Step]:
        """Handle the report of a trial that was not closed; the smaller `metric` is better."""
        return []

    def ended(self, _trial: int, how: TrialEnd, _closed: bool, /) -> list[Step]:
        """Handle the end of a trial; `closed`: on request of the search."""
        if how is TrialEnd.INVALID and self._replaces:
            self._left += 1
        return self._next()

    @property
    def state(self) -> dict[str, Any]:
        """The state for `restore`, as JSON."""
        return {"left": self._left}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`."""
        self._left = state["left"]

    def _next(self) -> list[Step]:
        if self._left <= 0:
            return []
        self._left -= 1
        return [Begin(self._length)]


_NUMBER_BYTES = 8
_TRIAL_BYTES = 4


def pack_numbers(values: Collection[float]) -> str:
    """Encode floating-point numbers exactly."""
    return b64encode(struct.pack(f"<{len(values)}d", *values)).decode()


def unpack_numbers(text: str) -> list[float]:
    """The inverse of `pack_numbers`."""
    data = b64decode(text)
    return list(struct.unpack(f"<{len(data) // _NUMBER_BYTES}d", data))


def pack_pairs(values: Mapping[int, int]) -> list[str]:
    """Encode such numbers by the number of a trial."""
    return [pack_trials(values.keys()), pack_trials(values.values())]


def unpack_pairs(state: Sequence[str]) -> dict[int, int]:
    """The inverse of `pack_pairs`."""
    return dict(zip(*map(unpack_trials, state), strict=True))


def pack_trials(trials: Iterable[int]) -> str:
    """Encode numbers of trials, or other whole numbers from 0, below 2**32."""
    values = tuple(trials)
    return b64encode(struct.pack(f"<{len(values)}I", *values)).decode()


def unpack_trials(text: str) -> list[int]:
    """The inverse of `pack_trials`."""
    data = b64decode(text)
    return list(struct.unpack(f"<{len(data) // _TRIAL_BYTES}I", data))
