"""Arrays: equal runs that differ in an index alone, in Slurm's syntax; and the runs that a run awaits.

    0-99       from 0 to 99
    0-99:10    every tenth of them
    1,3,5-9    these
    0-99%8     at most 8 of them at once

A spec has the array; the members of an accepted array are runs with its id and an index each.
"""

import re
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from tarmac.model.codec import StoredRecord

MOST_MEMBERS = 10_000
LARGEST_INDEX = 4_000_000_000


class RunArray(StoredRecord, frozen=True, kw_only=True):
    """The indices as written, and how many members may hold slots at once (None: all)."""

    indices: str
    at_most: int | None = None

    def values(self) -> tuple[int, ...]:
        """The indices, smallest first."""
        return _values(self.indices)

    def __str__(self) -> str:
        return self.indices if self.at_most is None else f"{self.indices}%{self.at_most}"


def read_array(text: str) -> RunArray:
    """The array of a text such as `0-99%8`; raises ValueError with the problem."""
    indices, percent, number = text.replace(" ", "").partition("%")
    if percent and not re.fullmatch(r"[1-9]\d{0,9}", number, re.ASCII):
        raise ValueError("after % is how many may run at once, 1 or more")
    _values(indices)
    return RunArray(indices=indices, at_most=int(number) if percent else None)


def array_id_of(run_id: str) -> str:
    """The id of the array whose first member is this run."""
    return "a" + run_id[1:]


def split_member(reference: str) -> tuple[str, int] | None:
    """The array and the index of a reference such as `sweep[3]`; None for any other."""
    found = re.fullmatch(r"(.+)\[([0-9]{1,10})\]", reference)
    return (found[1], int(found[2])) if found else None


@lru_cache(maxsize=64)  # each start of a member asks
def _values(indices: str) -> tuple[int, ...]:
    found: set[int] = set()
    for part in indices.split(","):
        match = re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([0-9]{1,10}))?)?", part)
        if match is None:
            raise ValueError(f"{part!r} is no index and no range such as 0-99 or 0-99:10")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first:
            raise ValueError(f"{part} begins after its end")
        if step < 1 or last > LARGEST_INDEX:
            raise ValueError(f"{part}: a step is 1 or more, an index {LARGEST_INDEX} at most")
        if (last - first) // step >= MOST_MEMBERS:
            raise ValueError(f"{part} has more than {MOST_MEMBERS} members")
        found.update(range(first, last + 1, step))
    if len(found) > MOST_MEMBERS:
        raise ValueError(f"it has {len(found)} members, and {MOST_MEMBERS} are the most")
    return tuple(sorted(found))


class Condition(StrEnum):
    """The awaited end of the other run (in the words of Slurm: afterok, afterany)."""

    COMPLETED = "completed"
    ENDED = "ended"


class Dependency(StoredRecord, frozen=True, kw_only=True):
    """`run` is an id, a name, a prefix of an id or `@last`."""

    run: str
    condition: Condition = Condition.COMPLETED

    def __str__(self) -> str:
        return self.run if self.condition is Condition.COMPLETED else f"{self.run}:{self.condition}"


class AwaitedRun(Struct, frozen=True, kw_only=True):
    """A run whose end is awaited before the start; `met` once it has ended so.

    `name` is stored because the run may be removed.
    """

    run_id: str
    name: str
    condition: Condition = Condition.COMPLETED
    met: bool = False

    def __str__(self) -> str:
        return f"{self.name} ({self.run_id})"
