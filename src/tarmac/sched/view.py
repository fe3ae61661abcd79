"""What one run may see of a pool: the nodes its target allows, best fit first or emptiest first.

Made by `planning` for every try, by `admission` on an empty board and by `forecast` on a scratch board.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from tarmac.model.resources import Resources
from tarmac.model.spec import Target
from tarmac.sched.board import Entry, PoolBoard, Shelf, Space


class View:
    """The nodes of a pool that a target allows; kept nodes only where `use_kept` says so."""

    __slots__ = ("_lists", "_shelves")

    def __init__(self, lists: list[tuple[str | None, list[Entry]]], shelves: Sequence[Shelf] = ()) -> None:
        """Sorted entries, each list with the slot type of its nodes; the shelves, if they are whole ones."""
        self._lists = lists
        self._shelves = shelves

    @classmethod
    def of(cls, pool: PoolBoard, target: Target, *, use_kept: bool) -> View:
        """The part of `pool` that `target` allows."""
        if target.hostnames:
            return cls(_named(pool, target, use_kept=use_kept))
        shelves = [shelf for shelf in pool.shelves.values() if target.shard in (None, shelf.shard)]
        lists = [(shelf.slot_type, shelf.open) for shelf in shelves]
        if use_kept:
            lists += [(shelf.slot_type, shelf.kept) for shelf in shelves if shelf.kept]
        return cls(lists, shelves)

    def tightest(self, need: Resources) -> Iterator[Space]:
        """Nodes where `need` is free, the one with the fewest free slots first (best fit)."""
        parts = [_rising(entries, need.slots) for entries in self._of_type(need.slot_type)]
        entries = parts[0] if len(parts) == 1 else heapq.merge(*parts)
        only_slots = not need.cpus and not need.memory_bytes
        return (space for _, _, space in entries if only_slots or space.has(need))

    def emptiest(self, need: Resources) -> Iterator[Space]:
        """Nodes where `need` is free, the one with the most free slots first."""
        parts = [_falling(entries, need.slots) for entries in self._of_type(need.slot_type)]
        entries = parts[0] if len(parts) == 1 else heapq.merge(*parts, key=_emptiness)
        return (space for _, _, space in entries if space.has(need))

    def less(self, taken: Mapping[Space, Resources]) -> View:
        """The same nodes with this much taken from some: those appear as copies."""
        lists = []
        for slot_type, entries in self._lists:
            left = [entry for entry in entries if entry[2] not in taken]
            for _, order, space in entries:
                if space in taken:
                    copy = space.less(taken[space])
                    left.append((copy.free, order, copy))
            lists.append((slot_type, sorted(left)))
        return View(lists)

    def least_visited(self, slot_type: str | None) -> Space | None:
        """The node with the fewest guests; None if the target allows no node at all."""
        if self._shelves:
            visited = [
                shelf.least_visited() for shelf in self._shelves if slot_type in (None, shelf.slot_type)
            ]
        else:
            visited = [space for entries in self._of_type(slot_type) for _, _, space in entries]
        return min(visited, key=lambda space: (space.guests, space.order), default=None)

    def _of_type(self, slot_type: str | None) -> list[list[Entry]]:
        return [entries for kind, entries in self._lists if slot_type is None or slot_type == kind]


def _named(pool: PoolBoard, target: Target, *, use_kept: bool) -> list[tuple[str | None, list[Entry]]]:
    """Lists made for this target alone: host names are few, and cut across shelves."""
    lists: dict[str | None, list[Entry]] = {}
    for space in pool.named(target.hostnames):
        if target.shard in (None, space.node.shard) and (use_kept or not space.kept):
            entry = (space.free, space.order, space)
            lists.setdefault(space.node.capacity.slot_type, []).append(entry)
    return [(kind, sorted(entries)) for kind, entries in lists.items()]


def _rising(entries: list[Entry], slots: int) -> Iterator[Entry]:
    for index in range(bisect_left(entries, (slots,)), len(entries)):
        yield entries[index]


def _falling(entries: list[Entry], slots: int) -> Iterator[Entry]:
    """From the most free slots down; among equals the lowest order first."""
    end = len(entries)
    while end:
        free = entries[end - 1][0]
        if free < slots:
            return
        start = bisect_left(entries, (free,))
        for index in range(start, end):
            yield entries[index]
        end = start


def _emptiness(entry: Entry) -> tuple[int, int]:
    return -entry[0], entry[1]
