"""What is free on each node of a pool, kept in the order that placing asks for.

Kept up to date by `PoolState` (real changes: `settle`) and played on by a pass (`take`, `keep`), which takes
everything back at its end (`undo`). Nodes alike in shard and slot type lie on one `Shelf`, sorted by free
slots: best fit is a bisection, taking slots moves one entry.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum

from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Node, NodeState
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation

PoolKey = tuple[str, str]
"""Cluster and pool."""

CPU_DUST = 1e-6
"""Processors may be asked for in fractions: what rounding leaves behind is not a shortage."""

NO_LOADS: Mapping[str, Mapping[str, Load]] = {}

OPEN = -1
"""The number of no keeping: the node is open to all."""

MANY = 200
"""From so many entries on, a shelf is sorted anew rather than changed one entry at a time."""


Left = tuple[int, float, int, int, int]
"""What is left of a node: free slots, processors, memory; the mask of taken slots; guests."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run holds on one node: a mask of slots, and amounts. `guests` are seats that hold nothing."""

    slots: int
    cpus: float
    memory_bytes: int
    guests: int


@dataclass(slots=True, eq=False)
class Space:
    """What is free on one node. `order` is its rank among all nodes, `taken` a mask of slots.

    `kept` is the number of the keeping it is in; `shelf` is None while the node takes no work.
    """

    node: Node
    order: int
    free: int
    cpus: float
    memory_bytes: int
    taken: int = 0
    guests: int = 0
    kept: int = OPEN
    shelf: Shelf | None = None

    @classmethod
    def empty(cls, node: Node, order: int) -> Space:
        """A node nobody uses."""
        capacity = node.capacity
        return cls(node, order, capacity.slots, capacity.cpus, capacity.memory_bytes)

    def copy(self) -> Space:
        """The same, on no shelf."""
        return Space(
            self.node, self.order, self.free, self.cpus, self.memory_bytes, self.taken, self.guests, self.kept
        )

    def set(self, left: Left) -> None:
        """Let this be left. A space on a shelf is changed by its board alone."""
        self.free, self.cpus, self.memory_bytes, self.taken, self.guests = left

    def less(self, need: Resources) -> Space:
        """A copy with this much taken from it, whichever slots they are."""
        copy = self.copy()
        copy.free -= need.slots
        copy.cpus -= need.cpus
        copy.memory_bytes -= need.memory_bytes
        return copy

    def give(self, load: Load) -> None:
        """Get back what a run held here. For copies only: a board lies sorted by what is free."""
        given = self.taken & load.slots
        self.taken ^= given
        self.free += given.bit_count()
        self.cpus += load.cpus
        self.memory_bytes += load.memory_bytes

    def has(self, need: Resources) -> bool:
        """Whether this much is free."""
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


Entry = tuple[int, int, Space]
"""Free slots (or guests), order, and the space: sorts for best fit, and never compares spaces."""


class Shelf:
    """Nodes of one pool alike in shard and slot type: those open to all, and those of each keeping.

    `counts` has, for each keeping and for the open ones, how many nodes have so many free slots.
    """

    __slots__ = ("_visits", "_width", "counts", "kept", "open", "shard", "slot_type")

    def __init__(self, shard: str | None, slot_type: str | None, width: int) -> None:
        """`width`: no node has so many slots."""
        self.shard = shard
        self.slot_type = slot_type
        self._width = width
        self.open: list[Entry] = []
        self.kept: dict[int, list[Entry]] = {}
        self.counts: dict[int, list[int]] = {OPEN: [0] * width}
        self._visits: list[Entry] | None = None

    def put(self, space: Space) -> None:
        """Lay a space where what is free on it belongs."""
        insort(self._entries(space), (space.free, space.order, space))
        self.counts[space.kept][space.free] += 1

    def drop(self, space: Space) -> None:
        """Take a space away; what is free on it has not changed since it was put."""
        entries = self._entries(space)
        del entries[bisect_left(entries, (space.free, space.order))]
        self.counts[space.kept][space.free] -= 1

    def fill(self, spaces: Iterable[Space]) -> None:
        """Lay many open spaces on the shelf."""
        self.open = sorted((space.free, space.order, space) for space in spaces)
        self.counts[OPEN] = self._counted(entry[2] for entry in self.open)

    def keep(self, spaces: list[Space], number: int) -> None:
        """Move open spaces to a keeping."""
        if len(spaces) < MANY:
            for space in spaces:
                self.drop(space)
                space.kept = number
        else:
            for space in spaces:
                space.kept = number
            self.open = [entry for entry in self.open if entry[2].kept == OPEN]
            counts = self.counts[OPEN]
            for space in spaces:
                counts[space.free] -= 1
        self.kept[number] = sorted((space.free, space.order, space) for space in spaces)
        self.counts[number] = self._counted(spaces)

    def open_all(self) -> None:
        """Give the kept spaces back to all."""
        back = [entry for entries in self.kept.values() for entry in entries]
        self.counts = {OPEN: list(map(sum, zip(*self.counts.values(), strict=True)))}
        self.kept.clear()
        for _, _, space in back:
            space.kept = OPEN
        if len(back) < MANY:
            for entry in back:
                insort(self.open, entry)
        else:
            self.open += back
            self.open.sort()

    def visited(self, space: Space) -> None:
        """Take note that the number of guests on a space has changed."""
        if self._visits is not None:
            heapq.heappush(self._visits, (space.guests, space.order, space))
            if len(self._visits) > MANY + 4 * len(self.open):
                self._visits = None

    def least_visited(self) -> Space | None:
        """The node with the fewest guests. Guests use nothing, so kept nodes take them too."""
        if self._visits is None:
            lists = (self.open, *self.kept.values())
            self._visits = [(space.guests, order, space) for entries in lists for _, order, space in entries]
            heapq.heapify(self._visits)
        visits = self._visits
        while visits and (visits[0][0] != visits[0][2].guests or visits[0][2].shelf is not self):
            heapq.heappop(visits)
        return visits[0][2] if visits else None

    def _counted(self, spaces: Iterable[Space]) -> list[int]:
        counts = [0] * self._width
        for space in spaces:
            counts[space.free] += 1
        return counts

    def _entries(self, space: Space) -> list[Entry]:
        return self.open if space.kept == OPEN else self.kept[space.kept]


class PoolBoard:
    """The nodes of one pool; `closed` of them take no work. `free` counts slots by type (None: all)."""

    __slots__ = (
        "_at_least",
        "_by_hostname",
        "_journal",
        "_kept",
        "_width",
        "closed",
        "free",
        "key",
        "shelves",
        "spaces",
    )

    def __init__(self, key: PoolKey, spaces: Iterable[Space], *, any_state: bool = False) -> None:
        """Take over these spaces, which lie on no shelf yet; with `any_state` all of them take work."""
        self.key = key
        self.spaces = {space.node.name: space for space in spaces}
        self.shelves: dict[tuple[str | None, str | None], Shelf] = {}
        self.free: dict[str | None, int] = {None: 0}
        self.closed = 0
        self._by_hostname: dict[str, list[Space]] | None = None
        self._journal: list[tuple[Space, Left]] = []
        self._kept = 0
        self._at_least: dict[object, list[int]] = {}
        self._width = 1 + max((space.node.capacity.slots for space in self.spaces.values()), default=0)
        by_shelf: dict[Shelf, list[Space]] = {}
        for space in self.spaces.values():
            if any_state or space.node.state is NodeState.UP:
                space.shelf = self._shelf(space.node)
                by_shelf.setdefault(space.shelf, []).append(space)
                self._count(space, space.free)
            else:
                self.closed += 1
        for shelf, together in by_shelf.items():
            shelf.fill(together)

    @property
    def touched(self) -> bool:
        """Whether something was taken that `undo` will give back."""
        return bool(self._journal)

    @property
    def keepings(self) -> range:
        """The numbers of all keepings."""
        return range(self._kept)

    def named(self, hostnames: Iterable[str]) -> Iterator[Space]:
        """The spaces of nodes with these host names that take work."""
        if self._by_hostname is None:
            self._by_hostname = {}
            for space in self.spaces.values():
                self._by_hostname.setdefault(space.node.hostname, []).append(space)
        for hostname in dict.fromkeys(hostnames):
            yield from (space for space in self._by_hostname.get(hostname, ()) if space.shelf is not None)

    def at_least(
        self, shard: str | None, slot_type: str | None, keepings: Sequence[int] = ()
    ) -> Sequence[int]:
        """How many nodes, open or in these keepings, have at least so many free slots, by that number."""
        key = (shard, slot_type, *keepings)
        found = self._at_least.get(key)
        if found is None:
            found = self._at_least[key] = self._cumulated(shard, slot_type, (OPEN, *keepings))
        return found

    def _cumulated(self, shard: str | None, slot_type: str | None, numbers: Sequence[int]) -> list[int]:
        lists = [
            shelf.counts[number]
            for shelf in self.shelves.values()
            if shard in (None, shelf.shard) and slot_type in (None, shelf.slot_type)
            for number in numbers
            if number in shelf.counts
        ]
        counts = lists[0] if len(lists) == 1 else [sum(column) for column in zip(*lists, strict=True)]
        at_least = list(accumulate(reversed(counts)))
        at_least.reverse()
        return at_least

    def settle(self, space: Space, loads: Iterable[Load]) -> None:
        """Make a space what these loads leave of its node."""
        self._set(space, left_of(space.node, loads))

    def restate(self, space: Space, node: Node) -> None:
        """The node of a space has another state than it had, and is else the same."""
        if space.shelf is not None:
            space.shelf.drop(space)
            self._at_least.clear()
            self._count(space, -space.free)
            space.shelf = None
            self.closed += 1
        space.node = node
        if node.state is NodeState.UP:
            self.closed -= 1
            space.shelf = self._shelf(node)
            space.shelf.put(space)
            space.shelf.visited(space)
            self._count(space, space.free)

    def take(self, space: Space, need: Resources) -> tuple[int, ...]:
        """Take this much from a space until `undo`: the lowest free slot numbers, which are returned."""
        slots = space.lowest_free(need.slots)
        taken = space.taken
        for slot in slots:
            taken |= 1 << slot
        before = (space.free, space.cpus, space.memory_bytes, space.taken, space.guests)
        self._journal.append((space, before))
        free = space.free - need.slots
        memory_bytes = space.memory_bytes - need.memory_bytes
        guests = space.guests + need.empty
        self._set(space, (free, space.cpus - need.cpus, memory_bytes, taken, guests))
        return slots

    def keep(self, names: Iterable[str]) -> int:
        """Keep these open nodes until `undo`: the number of the keeping is returned."""
        number = self._kept
        self._kept += 1
        by_shelf: dict[Shelf, list[Space]] = {}
        for name in names:
            space = self.spaces[name]
            if space.shelf is not None and space.kept == OPEN:
                by_shelf.setdefault(space.shelf, []).append(space)
        for shelf, spaces in by_shelf.items():
            shelf.keep(spaces, number)
        self._at_least.clear()
        return number

    def undo(self) -> None:
        """Give back what was taken and kept."""
        for space, before in reversed(self._journal):
            self._set(space, before)
        self._journal.clear()
        if self._kept:
            self._kept = 0
            self._at_least.clear()
            for shelf in self.shelves.values():
                if shelf.kept:
                    shelf.open_all()

    def _set(self, space: Space, left: Left) -> None:
        shelf = space.shelf
        if shelf is None:
            space.set(left)
            return
        guests = space.guests
        if left[0] != space.free:
            shelf.drop(space)
            self._count(space, left[0] - space.free)
            space.set(left)
            shelf.put(space)
        else:
            space.set(left)
        if guests != space.guests:
            shelf.visited(space)

    def _count(self, space: Space, slots: int) -> None:
        slot_type = space.node.capacity.slot_type
        self._at_least.clear()
        self.free[None] += slots
        if slot_type is not None:
            self.free[slot_type] = self.free.get(slot_type, 0) + slots

    def _shelf(self, node: Node) -> Shelf:
        kind = (node.shard, node.capacity.slot_type)
        shelf = self.shelves.get(kind)
        if shelf is None:
            shelf = self.shelves[kind] = Shelf(*kind, self._width)
        return shelf


def boards(
    nodes: Iterable[Node], loads: Mapping[str, Mapping[str, Load]] = NO_LOADS, *, any_state: bool = False
) -> dict[PoolKey, PoolBoard]:
    """A board for each pool that has nodes, in the order in which pools are tried.

    `loads` has what runs hold, by node and run; with `any_state` nodes that are down take work too.
    """
    grouped: dict[PoolKey, list[Space]] = {}
    for order, node in enumerate(sorted(nodes, key=node_rank)):
        space = Space.empty(node, order)
        if held := loads.get(node.name):
            space.set(left_of(node, held.values()))
        grouped.setdefault((node.cluster, node.pool), []).append(space)
    return {key: PoolBoard(key, grouped[key], any_state=any_state) for key in sorted(grouped, key=pool_rank)}


def left_of(node: Node, loads: Iterable[Load]) -> Left:
    """What these loads leave of a node: the same whatever the order they are told in."""
    capacity = node.capacity
    taken, memory_bytes, guests = 0, capacity.memory_bytes, 0
    cpus = []
    for load in loads:
        taken |= load.slots
        memory_bytes -= load.memory_bytes
        guests += load.guests
        if load.cpus:
            cpus.append(load.cpus)
    taken &= (1 << capacity.slots) - 1
    free = capacity.slots - taken.bit_count()
    return free, capacity.cpus - fsum(cpus) if cpus else capacity.cpus, memory_bytes, taken, guests


def loads_of(allocation: Allocation) -> dict[str, Load]:
    """What an allocation holds on each of its nodes."""
    loads: dict[str, Load] = {}
    for seat in allocation.seats:
        slots = 0
        for slot in seat.slots:
            slots |= 1 << slot
        nothing = not (seat.slots or seat.cpus or seat.memory_bytes)
        load = Load(slots, seat.cpus, seat.memory_bytes, int(nothing))
        other = loads.get(seat.node)
        if other is not None:
            load = Load(
                load.slots | other.slots,
                load.cpus + other.cpus,
                load.memory_bytes + other.memory_bytes,
                load.guests + other.guests,
            )
        loads[seat.node] = load
    return loads


def node_rank(node: Node) -> tuple[int, str]:
    """How nodes are ordered, and so ranked: shorter names first, so that n2 comes before n10."""
    return len(node.name), node.name


def pool_rank(key: PoolKey) -> tuple[bool, str, bool, str]:
    """Where a run that names no pool is tried first: the cluster and the pool that need no settings."""
    cluster, pool = key
    return cluster != LOCAL_CLUSTER, cluster, pool != DEFAULT_POOL, pool
