"""The nodes of a pool that one run may use, best fit first or emptiest first.

Made by `cycle` for every try, by `admission` on an empty board, and by `forecast` with future nodes.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice

from tarmac.model.cluster import Node
from tarmac.model.resources import Resources, is_of_type
from tarmac.model.spec import Target
from tarmac.sched.placing.board import PoolBoard
from tarmac.sched.placing.space import NOBODY, OPEN, Bucket, Entry, Ghosts, Space

NOT_EXCLUDED: frozenset[str] = frozenset()


class View:
    """The nodes of a pool that a target allows: the open ones, and those of the reservations it may use.

    With `spread` the emptiest nodes that fit a part are chosen, otherwise the fullest.
    """

    __slots__ = ("_buckets", "_excluded", "_hidden", "_lists", "spread")

    def __init__(
        self,
        lists: list[tuple[str | None, list[Entry]]],
        buckets: Sequence[Bucket] = (),
        *,
        excluded: frozenset[str] = NOT_EXCLUDED,
        hidden: Ghosts = NOBODY,
        spread: bool = False,
    ) -> None:
        """`lists` are sorted entries, each with its nodes' slot type; `buckets` are set if they are whole."""
        self._lists = lists
        self._buckets = buckets
        self._excluded = excluded
        self._hidden = hidden
        self.spread = spread

    @classmethod
    def of(
        cls, pool: PoolBoard, target: Target, *, reserved: Iterable[int] = (), ghosts: Ghosts = NOBODY
    ) -> View:
        """The part of `pool` that `target` allows, including the nodes of the reservations `reserved`."""
        excluded = frozenset(target.excluded) if target.excluded else NOT_EXCLUDED
        if target.hostnames:
            allowed = {OPEN, *reserved}
            named = (  # host names are few, and cut across buckets
                ghosts.get(space, space)
                for space in pool.named(target.hostnames)
                if target.shard in (None, space.node.shard) and (space.reserved in allowed or space in ghosts)
            )
            return cls(_by_type(named), excluded=excluded, spread=pool.spread)
        buckets = [bucket for bucket in pool.buckets.values() if target.shard in (None, bucket.shard)]
        lists = [(bucket.slot_type, bucket.open) for bucket in buckets]
        for number in reserved:
            lists += [
                (bucket.slot_type, bucket.reserved[number]) for bucket in buckets if number in bucket.reserved
            ]
        if ghosts:
            lists += _by_type(seen for space, seen in ghosts.items() if space.bucket in buckets)
        return cls(lists, () if ghosts else buckets, excluded=excluded, hidden=ghosts, spread=pool.spread)

    def choice(self, need: Resources) -> Iterator[Space]:
        """Nodes where `need` is free, in order of preference."""
        return self.emptiest(need) if self.spread else self.tightest(need)

    def first(self, need: Resources, count: int) -> list[Space]:
        """The first `count` of `choice`, or all if there are fewer."""
        if need.cpus or need.memory_bytes or self._excluded or self.spread:
            return list(islice(self.choice(need), count))
        found: list[Entry] = []
        hidden = self._hidden
        lists = self._of_type(need.slot_type)
        for entries in lists:
            start = bisect_left(entries, (need.slots,))
            near = entries[start : start + count + len(hidden)]
            found += [entry for entry in near if entry[2] not in hidden] if hidden else near
        if len(lists) > 1:
            found.sort()
        return [entry[2] for entry in found[:count]]

    def tightest(self, need: Resources) -> Iterator[Space]:
        """Nodes where `need` is free, the one with the fewest free slots first (best fit)."""
        parts = [self._seen(_rising(entries, need.slots)) for entries in self._of_type(need.slot_type)]
        entries = parts[0] if len(parts) == 1 else heapq.merge(*parts)
        return self._shown(entries, need)

    def emptiest(self, need: Resources) -> Iterator[Space]:
        """Nodes where `need` is free, the one with the most free slots first."""
        parts = [self._seen(_falling(entries, need.slots)) for entries in self._of_type(need.slot_type)]
        entries = parts[0] if len(parts) == 1 else heapq.merge(*parts, key=_emptiness)
        return self._shown(entries, need)

    def less(self, taken: Mapping[Space, Resources]) -> View:
        """The same nodes less the resources in `taken`; changed nodes appear as copies."""
        lists = []
        for slot_type, entries in self._lists:
            left = []
            for _, order, space in entries:
                if space in self._hidden or (self._excluded and is_excluded(space.node, self._excluded)):
                    continue
                seen = space.less(taken[space]) if space in taken else space
                left.append((seen.free, order, seen))
            lists.append((slot_type, sorted(left)))
        return View(lists, spread=self.spread)

    def least_weightless(self, slot_type: str | None) -> Space | None:
        """The node with the fewest weightless replicas; None if the target allows no node."""
        count_weightless: Iterable[Space | None]
        if self._buckets and not self._excluded:
            buckets = (bucket for bucket in self._buckets if is_of_type(bucket.slot_type, slot_type))
            count_weightless = [bucket.least_weightless() for bucket in buckets]
        else:
            count_weightless = self.tightest(Resources(slot_type=slot_type))
        spaces = (space for space in count_weightless if space is not None)
        return min(spaces, key=lambda space: (space.weightless, space.order), default=None)

    def _of_type(self, slot_type: str | None) -> list[list[Entry]]:
        return [entries for kind, entries in self._lists if is_of_type(kind, slot_type)]

    def _shown(self, entries: Iterable[Entry], need: Resources) -> Iterator[Space]:
        spaces: Iterator[Space] = (space for _, _, space in entries)
        if need.cpus or need.memory_bytes:
            spaces = (space for space in spaces if space.has(need))
        if self._excluded:
            spaces = (space for space in spaces if not is_excluded(space.node, self._excluded))
        return spaces

    def _seen(self, entries: Iterator[Entry]) -> Iterator[Entry]:
        """The entries without spaces that copies replace (before merging: copies have the same order)."""
        return (entry for entry in entries if entry[2] not in self._hidden) if self._hidden else entries


def is_excluded(node: Node, excluded: Collection[str]) -> bool:
    """Whether a run excludes a node, by its host name or its own."""
    return node.hostname in excluded or node.name in excluded


def _by_type(spaces: Iterable[Space]) -> list[tuple[str | None, list[Entry]]]:
    """A list for each slot type of these spaces."""
    lists: dict[str | None, list[Entry]] = {}
    for space in spaces:
        lists.setdefault(space.node.capacity.slot_type, []).append((space.free, space.order, space))
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
