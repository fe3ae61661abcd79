"""A merged walk along many sorted lists of queued runs. Used by `queue_walk` and `cycle`.

Lists of a fair share are read lazily, the least claim first: a walk reaches few of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

from tarmac.sched.index.queues import ClassQueue, ModeQueue, Queued
from tarmac.sched.policies.order import Key

Source = ModeQueue | ClassQueue
Place = tuple[int, float, Key]
"""The rank of a mode, the usage of an entity, and the key of a run. The least comes first."""

Coming = Iterator[tuple[float, Key, Source, int]]
"""Lists in order: the usage of their entity, the key of their next run, the list, and its index."""

_Entry = tuple[int, float, Key, int, Source | None, int, Coming | None]


class Walk:
    """A heap of lists, each with the index of its next run.

    `usage` gives the present usage of a mode queue.
    """

    __slots__ = ("_entered", "_heap", "_numbers", "_usage_of")

    def __init__(self, usage: Callable[[ModeQueue], float]) -> None:
        self._usage_of = usage
        self._heap: list[_Entry] = []
        self._entered: set[Source] = set()
        self._numbers = count()

    def enter(self, source: Source, index: int = 0) -> None:
        """Add this list from this index; does nothing if the walk has it already."""
        if source in self._entered or index >= len(source.entries):
            return
        self._entered.add(source)
        mode_queue = _mode_queue(source)
        key = source.entries[index][0]
        entry = (mode_queue.rank, self._usage_of(mode_queue), key, next(self._numbers), source, index, None)
        heapq.heappush(self._heap, entry)

    def follow(self, rank: int, coming: Coming) -> None:
        """Add these lists lazily, each when its turn comes."""
        found = next(coming, None)
        if found is not None:
            usage, key, source, index = found
            heapq.heappush(self._heap, (rank, usage, key, next(self._numbers), source, index, coming))

    def next(self) -> tuple[Place, Source, int] | None:
        """The next run by its list and index, and its place in the order. Repeats it until `go_on`."""
        while self._heap:
            rank, usage, key, number, source, index, coming = self._heap[0]
            assert source is not None
            if coming is not None:
                heapq.heappop(self._heap)
                self.enter(source, index)
                self.follow(rank, coming)
            elif (now := self._usage_of(_mode_queue(source))) != usage:
                heapq.heapreplace(self._heap, (rank, now, key, number, source, index, None))
            else:
                return (rank, usage, key), source, index
        return None

    def go_on(self, index: int) -> None:
        """Advance the list that `next` returned to this index."""
        rank, usage, _, number, source, _, _ = self._heap[0]
        assert source is not None
        if index < len(source.entries):
            key = source.entries[index][0]
            heapq.heapreplace(self._heap, (rank, usage, key, number, source, index, None))
        else:
            heapq.heappop(self._heap)


def queued_at(source: Source, index: int) -> Queued:
    """The run at this index of a list."""
    return source.entries[index][1]


def _mode_queue(source: Source) -> ModeQueue:
    return source.mode_queue if isinstance(source, ClassQueue) else source
