"""Queued runs one after another, from many sorted lists at once: used by `queue_walk` and by `cycle`.

Lists of a fair share come one by one, the least claim first, as far as the walk gets: most are never met.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

from tarmac.sched.index.queues import ClassQueue, ModeQueue, Queued
from tarmac.sched.policies.order import Key

Source = ModeQueue | ClassQueue
Place = tuple[int, float, Key]
"""The rank of a mode, what is held against an entity, and the key of a run: the least is asked first."""

Coming = Iterator[tuple[float, Key, Source, int]]
"""Lists in order: what is held against their entity, the key of their next run, the list, and its index."""

_Entry = tuple[int, float, Key, int, Source | None, int, Coming | None]


class Walk:
    """A heap of lists, each with the index of its next run.

    `usage`: what is held against a mode queue now.
    """

    __slots__ = ("_entered", "_heap", "_numbers", "_usage_of")

    def __init__(self, usage: Callable[[ModeQueue], float]) -> None:
        self._usage_of = usage
        self._heap: list[_Entry] = []
        self._entered: set[Source] = set()
        self._numbers = count()

    def enter(self, source: Source, index: int = 0) -> None:
        """Walk along this list from there; nothing happens if it is walked along already."""
        if source in self._entered or index >= len(source.entries):
            return
        self._entered.add(source)
        mode_queue = _mode_queue(source)
        key = source.entries[index][0]
        entry = (mode_queue.rank, self._usage_of(mode_queue), key, next(self._numbers), source, index, None)
        heapq.heappush(self._heap, entry)

    def follow(self, rank: int, coming: Coming) -> None:
        """Walk along these lists as well, each when its turn comes."""
        found = next(coming, None)
        if found is not None:
            usage, key, source, index = found
            heapq.heappush(self._heap, (rank, usage, key, next(self._numbers), source, index, coming))

    def next(self) -> tuple[Place, Source, int] | None:
        """The next run, by its list and index, and its place in the order; it stays until `go_on`."""
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
        """Go on with this index of the list that `next` named."""
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
