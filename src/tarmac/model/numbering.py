"""Numbers for things of tarmac, where a program of another system knows them by whole numbers only.

Given by the store when one is first asked for; `server.determined` asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol


class NumberKind(StrEnum):
    """What is numbered, each kind from 1. EXPERIMENT: by experiment, or run that is alone. TRIAL: by run."""

    EXPERIMENT = "experiment"
    TRIAL = "trial"


class Numbers(Protocol):
    """The durable record of numbers. Errors are those of `ports.Store`."""

    def numbers(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        """The number of each of these; the next free ones, in this order, go to those without.

        A number is for good: but for `pass_on` it is never given to another, also after its thing was
        removed.
        """
        ...

    def known(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        """The number of each of these that has one."""
        ...

    def pass_on(self, kind: NumberKind, of: str, to: str) -> None:
        """Give the number of one to another, which has none, and goes on with what the first one was."""
        ...

    def numbered(self, kind: NumberKind, number: int) -> str | None:
        """The id of what has this number; None where nothing has."""
        ...
