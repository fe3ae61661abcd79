"""The port of a dialect: what an input syntax must offer. One adapter each in `spec/NAME/`.

`spec.dialects` asks every dialect to detect a text and lets the surest one read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol

from tarmac.model.lifecycle import RunState
from tarmac.model.ports import NodeLaunch, WorkerLaunch
from tarmac.model.run import Attempt, Outcome, Run
from tarmac.model.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a reader made of a text. `warnings` are for the user and refuse nothing."""

    spec: RunSpec
    warnings: tuple[str, ...] = ()


class Certainty(IntEnum):
    """How sure a dialect is that a text is its own."""

    NO = 0
    POSSIBLE = 1
    CERTAIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """A dialect's verdict on a text; `missed` says, where it is NO, what the text lacks."""

    certainty: Certainty
    missed: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """The facts about one worker that a dialect may turn into variables of its own."""

    run: Run
    attempt: Attempt
    nodes: tuple[NodeLaunch, ...]
    node: NodeLaunch
    worker: WorkerLaunch


class Dialect(Protocol):
    """An input syntax. Pure: no file, clock or environment is read."""

    @property
    def name(self) -> str:
        """What `RunSpec.dialect` says."""
        ...

    @property
    def state_words(self) -> Mapping[RunState | Outcome, str]:
        """This dialect's own words for states and outcomes; those left out keep tarmac's."""
        ...

    def detect(self, filename: str, text: str) -> Detection:
        """Whether the text is in this syntax, by its content; the name decides nothing alone."""
        ...

    def read(self, text: str, *, filename: str, directory: str) -> Reading:
        """The spec in the text. Raises InvalidInput with every problem in it, and nothing else.

        Relative paths of the submitter's machine are resolved against `directory`, without looking there.
        """
        ...

    def environment(self, context: WorkerContext, /) -> Mapping[str, str]:
        """Variables that this dialect promises to a worker beyond those every worker gets."""
        ...
