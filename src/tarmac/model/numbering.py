"""Whole numbers for things of tarmac, for programs of other systems that need them.

The store assigns a number on the first request; `systems.determined.gateway` makes the requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Protocol


class NumberKind(StrEnum):
    """The numbered things, each kind from 1.

    EXPERIMENT: by experiment, or by a run of its own. TRIAL: by run.
    """

    EXPERIMENT = "experiment"
    TRIAL = "trial"


class Numbers(Protocol):
    """The durable record of numbers. Errors are those of `ports.Store`."""

    def numbers(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of these ids; the next free ones, in this order, go to those without.

        A number is permanent: except by `pass_on` it never gets another owner, even after its own was
        removed.
        """
        ...

    def known(self, kind: NumberKind, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of those ids that have one."""
        ...

    def pass_on(self, kind: NumberKind, of: str, to: str) -> None:
        """Move the number of one id to another without a number, which continues what the first one was."""
        ...

    def numbered(self, kind: NumberKind, number: int) -> str | None:
        """The id with this number; None if there is none."""
        ...
