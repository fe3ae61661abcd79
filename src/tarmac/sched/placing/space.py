"""One node as the scheduler sees it: its loads and free resources; and buckets of equal nodes.

Used by `board`, which keeps the buckets of a pool, and by `forecast`, which works on copies of spaces.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from tarmac.model.cluster import Node
from tarmac.model.reservations import NodeReservation
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation

CPU_DUST = 1e-6
"""The rounding error of fractional processors, which is not a shortage."""

OPEN = -1
"""The number for no reservation: the node is open to all."""

EVERY = -2
"""The number under which nodes are counted whether they are reserved or not."""

Zone = tuple[NodeReservation, ...]
"""The reservations of a node, by their begin. Nodes of one pool with the same ones form a zone."""

Left = tuple[int, float, int, int, int]
"""The free resources of a node: slots, processors, memory; the mask of taken slots; weightless replicas."""


Spare = tuple[int, float, int]
"""Free slots, processors and memory of a node."""


class Load(NamedTuple):
    """The resources of one run on one node: a mask of slots, and amounts.

    `weightless` counts placements without resources.
    """

    slots: int
    cpus: float
    memory_bytes: int
    weightless: int


@dataclass(slots=True, eq=False)
class Space:
    """The free resources of one node. `order` is its rank among all nodes, `taken` a mask of slots.

    `reserved` is the number of its reservation; `bucket` is None while the node takes no work.
    """

    node: Node
    order: int
    free: int
    cpus: float
    memory_bytes: int
    taken: int = 0
    weightless: int = 0
    reserved: int = OPEN
    bucket: Bucket | None = None

    @classmethod
    def empty(cls, node: Node, order: int) -> Space:
        """An unused node with all its slots."""
        capacity = node.capacity
        return cls(node, order, capacity.slots, capacity.cpus, capacity.memory_bytes)

    def copy(self) -> Space:
        """A copy in no bucket."""
        return Space(
            self.node,
            self.order,
            self.free,
            self.cpus,
            self.memory_bytes,
            self.taken,
            self.weightless,
            self.reserved,
        )

    def set(self, left: Left) -> None:
        """Set the free resources. Only its board may change a space in a bucket."""
        self.free, self.cpus, self.memory_bytes, self.taken, self.weightless = left

    def less(self, need: Resources) -> Space:
        """A copy with these resources taken from it, whichever slots they are."""
        copy = self.copy()
        copy.free -= need.slots
        copy.cpus -= need.cpus
        copy.memory_bytes -= need.memory_bytes
        return copy

    @property
    def spare(self) -> Spare:
        """The free resources, by their amounts alone."""
        return self.free, self.cpus, self.memory_bytes

    def at_most(self, spare: Spare) -> Space:
        """A copy on which no more than this is free."""
        copy = self.copy()
        slots, cpus, memory_bytes = spare
        copy.free, copy.cpus = min(copy.free, slots), min(copy.cpus, cpus)
        copy.memory_bytes = min(copy.memory_bytes, memory_bytes)
        return copy

    def give(self, load: Load) -> None:
        """Release the load of a run. For copies only, because a board is sorted by free slots."""
        slots = self.taken & load.slots & ~self.node.drained_slots
        self.taken ^= slots
        self.free += slots.bit_count()
        self.cpus += load.cpus
        self.memory_bytes += load.memory_bytes

    def has(self, need: Resources) -> bool:
        """Whether these resources are free."""
        return (
            need.slots <= self.free
            and need.cpus <= self.cpus + CPU_DUST
            and need.memory_bytes <= self.memory_bytes
        )

    def room_for(self, each: Resources, most: int) -> int:
        """How many times `each` is free, up to `most`."""
        if each.slots:
            most = min(most, self.free // each.slots)
        if each.cpus:
            most = min(most, int((self.cpus + CPU_DUST) / each.cpus))
        if each.memory_bytes:
            most = min(most, self.memory_bytes // each.memory_bytes)
        return most

    def lowest_free(self, count: int) -> tuple[int, ...]:
        """The lowest `count` free slot numbers."""
        if not self.taken:
            return tuple(range(count))
        free = ((1 << self.node.capacity.slots) - 1) & ~self.taken
        slots = []
        for _ in range(count):
            lowest = free & -free
            slots.append(lowest.bit_length() - 1)
            free ^= lowest
        return tuple(slots)


Ghosts = Mapping[Space, Space]
"""Spaces of a board, each with the copy that replaces it."""

NOBODY: Ghosts = {}

MANY = 200
"""The number of entries from which a bucket is sorted or copied instead of changed one entry at a time."""


Entry = tuple[int, int, Space]
"""Free slots (or weightless replicas), order, and the space: sorts for best fit, and never compares
spaces.
"""


class Bucket:
    """Nodes of one pool with equal shard, slot type and zone: the open ones, and those of each reservation.

    `counts` has, for each reservation and for the open nodes, the number of nodes by free slots.
    """

    __slots__ = ("_by_weightless", "_width", "counts", "open", "reserved", "shard", "slot_type", "zone")

    def __init__(self, shard: str | None, slot_type: str | None, zone: Zone, width: int) -> None:
        """`width` is more than the slots of any node."""
        self.shard = shard
        self.slot_type = slot_type
        self.zone = zone
        self._width = width
        self.open: list[Entry] = []
        self.reserved: dict[int, list[Entry]] = {}
        self.counts: dict[int, list[int]] = {OPEN: [0] * width, EVERY: [0] * width}
        self._by_weightless: list[Entry] | None = None

    @property
    def vacant(self) -> list[Entry]:
        """The open nodes with free slots."""
        return self.open[bisect_left(self.open, (1,)) :]

    def put(self, space: Space) -> None:
        """Add a space at the place of its free slots."""
        insort(self._entries(space), (space.free, space.order, space))
        self._count(space, 1)

    def drop(self, space: Space) -> None:
        """Remove a space whose free slots are unchanged since it was added."""
        entries = self._entries(space)
        del entries[bisect_left(entries, (space.free, space.order))]
        self._count(space, -1)

    def move(self, space: Space, left: Left) -> None:
        """Set the free resources of a space in this bucket, and move it to its new place."""
        self.drop(space)
        space.set(left)
        self.put(space)

    def fill(self, spaces: Iterable[Space]) -> None:
        """Put many open spaces into the bucket."""
        self.open = sorted((space.free, space.order, space) for space in spaces)
        self.counts[OPEN] = self._counted(entry[2] for entry in self.open)
        self.counts[EVERY] = self.counts[OPEN].copy()

    def reserve(self, spaces: list[Space], number: int) -> None:
        """Move open spaces to a reservation."""
        before, counts, start = self.open, self.counts[OPEN], 0
        places = sorted([bisect_left(before, (space.free, space.order)) for space in spaces])
        self.reserved[number] = [before[place] for place in places]
        if len(places) < MANY:
            for place in reversed(places):
                del before[place]
        else:
            self.open = []
            for place in places:
                self.open += before[start:place]
                start = place + 1
            self.open += before[start:]
        for space in spaces:
            space.reserved = number
            counts[space.free] -= 1
        self.counts[number] = self._counted(spaces)

    def open_all(self) -> None:
        """Open all reserved spaces."""
        back = [entry for entries in self.reserved.values() for entry in entries]
        self.counts = {OPEN: self.counts[EVERY].copy(), EVERY: self.counts[EVERY]}
        self.reserved.clear()
        for _, _, space in back:
            space.reserved = OPEN
        if len(back) < MANY:
            for entry in back:
                insort(self.open, entry)
        else:
            self.open += back
            self.open.sort()

    def count_weightless(self, space: Space) -> None:
        """Note that the number of weightless replicas on a space has changed."""
        if self._by_weightless is not None:
            heapq.heappush(self._by_weightless, (space.weightless, space.order, space))
            if len(self._by_weightless) > MANY + 4 * len(self.open):
                self._by_weightless = None

    def least_weightless(self) -> Space | None:
        """The node with the fewest weightless replicas.

        They use nothing, so reserved nodes take them as well.
        """
        if self._by_weightless is None:
            lists = (self.open, *self.reserved.values())
            self._by_weightless = [
                (space.weightless, order, space) for entries in lists for _, order, space in entries
            ]
            heapq.heapify(self._by_weightless)
        by_weightless = self._by_weightless
        while by_weightless and (
            by_weightless[0][0] != by_weightless[0][2].weightless or by_weightless[0][2].bucket is not self
        ):
            heapq.heappop(by_weightless)
        return by_weightless[0][2] if by_weightless else None

    def _count(self, space: Space, change: int) -> None:
        self.counts[space.reserved][space.free] += change
        self.counts[EVERY][space.free] += change

    def _counted(self, spaces: Iterable[Space]) -> list[int]:
        counts = [0] * self._width
        for space in spaces:
            counts[space.free] += 1
        return counts

    def _entries(self, space: Space) -> list[Entry]:
        return self.open if space.reserved == OPEN else self.reserved[space.reserved]


def left_of(node: Node, loads: Iterable[Load]) -> Left:
    """The free resources that these loads leave on a node; their order does not matter."""
    capacity = node.capacity
    taken, memory_bytes, weightless = node.drained_slots, capacity.memory_bytes, 0
    cpus = []
    for load in loads:
        taken |= load.slots
        memory_bytes -= load.memory_bytes
        weightless += load.weightless
        if load.cpus:
            cpus.append(load.cpus)
    taken &= (1 << capacity.slots) - 1
    free = capacity.slots - taken.bit_count()
    return free, capacity.cpus - fsum(cpus) if cpus else capacity.cpus, memory_bytes, taken, weightless


def loads_of(allocation: Allocation) -> dict[str, Load]:
    """The load of an allocation on each of its nodes."""
    loads: dict[str, Load] = {}
    for placement in allocation.placements:
        slots = 0
        for slot in placement.slots:
            slots |= 1 << slot
        nothing = not (placement.slots or placement.cpus or placement.memory_bytes)
        load = Load(slots, placement.cpus, placement.memory_bytes, int(nothing))
        other = loads.get(placement.node)
        if other is not None:
            load = Load(
                load.slots | other.slots,
                load.cpus + other.cpus,
                load.memory_bytes + other.memory_bytes,
                load.weightless + other.weightless,
            )
        loads[placement.node] = load
    return loads
