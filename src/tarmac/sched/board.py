"""The board a pass plays on: what is free on each node now, kept in the order that placing asks for.

Built from a snapshot by `planning` (what is free), `admission` (all empty) and `forecast` (a scratch copy).
It is the only mutable state of a pass. Within a pool, nodes alike in shard and slot type lie on one
`Shelf`, sorted by free slots: best fit is a bisection, taking slots moves one entry.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Node, NodeState
from tarmac.model.resources import Resources
from tarmac.model.run import Seat

PoolKey = tuple[str, str]
"""Cluster and pool."""

CPU_DUST = 1e-6
"""Processors may be asked for in fractions: what rounding leaves behind is not a shortage."""


@dataclass(slots=True, eq=False)
class Space:
    """What is free on one node. `order` is its rank among all nodes; `guests` are seats that hold nothing."""

    node: Node
    order: int
    free: int
    cpus: float
    memory_bytes: int
    taken: set[int]
    guests: int = 0
    kept: bool = False

    @classmethod
    def empty(cls, node: Node, order: int) -> Space:
        """A node nobody uses."""
        capacity = node.capacity
        return cls(node, order, capacity.slots, capacity.cpus, capacity.memory_bytes, set())

    def copy(self) -> Space:
        """The same, not kept for anybody."""
        return Space(
            self.node, self.order, self.free, self.cpus, self.memory_bytes, set(self.taken), self.guests
        )

    def less(self, need: Resources) -> Space:
        """A copy with this much taken from it, whichever slots they are."""
        copy = self.copy()
        copy.free -= need.slots
        copy.cpus -= need.cpus
        copy.memory_bytes -= need.memory_bytes
        return copy

    def occupy(self, seat: Seat) -> None:
        """Take what a seat holds already, before the space lies on a shelf.

        Slot numbers that the node no longer has are ignored.
        """
        self.taken.update(slot for slot in seat.slots if slot < self.node.capacity.slots)
        self.free = self.node.capacity.slots - len(self.taken)
        self.cpus -= seat.cpus
        self.memory_bytes -= seat.memory_bytes
        if not seat.slots and not seat.cpus and not seat.memory_bytes:
            self.guests += 1

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
        free = (slot for slot in range(self.node.capacity.slots) if slot not in self.taken)
        return tuple(islice(free, count))


Entry = tuple[int, int, Space]
"""Free slots (or guests), order, and the space: sorts for best fit, and never compares spaces."""


class Shelf:
    """Nodes of one pool alike in shard and slot type: those open to all, and those kept for a run."""

    __slots__ = ("_visits", "kept", "open", "shard", "slot_type")

    def __init__(self, shard: str | None, slot_type: str | None) -> None:
        self.shard = shard
        self.slot_type = slot_type
        self.open: list[Entry] = []
        self.kept: list[Entry] = []
        self._visits: list[Entry] | None = None

    def sort(self) -> None:
        """Put the entries in order, after they were laid on the shelf as they came."""
        self.open.sort()

    def keep(self, space: Space) -> None:
        """Move a space from the open nodes to the kept ones."""
        self._drop(space)
        space.kept = True
        self._put(space)

    def change(self, space: Space, slots: int, cpus: float, memory_bytes: int) -> None:
        """Add these amounts (negative: take them) to what is free on a space."""
        space.cpus += cpus
        space.memory_bytes += memory_bytes
        if slots:
            self._drop(space)
            space.free += slots
            self._put(space)

    def least_visited(self) -> Space:
        """The node with the fewest guests. Guests use nothing, so kept nodes take them too."""
        if self._visits is None:
            self._visits = [(space.guests, order, space) for _, order, space in self.open + self.kept]
            heapq.heapify(self._visits)
        while self._visits[0][0] != self._visits[0][2].guests:  # guests only come during a pass
            _, order, space = self._visits[0]
            heapq.heapreplace(self._visits, (space.guests, order, space))
        return self._visits[0][2]

    def _drop(self, space: Space) -> None:
        entries = self.kept if space.kept else self.open
        del entries[bisect_left(entries, (space.free, space.order))]

    def _put(self, space: Space) -> None:
        insort(self.kept if space.kept else self.open, (space.free, space.order, space))


class PoolBoard:
    """The nodes of one pool that take work."""

    __slots__ = ("_by_hostname", "key", "shelves", "spaces")

    def __init__(self, key: PoolKey, spaces: Iterable[Space]) -> None:
        """Take over these spaces."""
        self.key = key
        self.spaces = {space.node.name: space for space in spaces}
        self.shelves: dict[tuple[str | None, str | None], Shelf] = {}
        self._by_hostname: dict[str, list[Space]] | None = None
        for space in self.spaces.values():
            self._shelve(space)
        for shelf in self.shelves.values():
            shelf.sort()

    def named(self, hostnames: Iterable[str]) -> Iterator[Space]:
        """The spaces of nodes with these host names."""
        if self._by_hostname is None:
            self._by_hostname = {}
            for space in self.spaces.values():
                self._by_hostname.setdefault(space.node.hostname, []).append(space)
        for hostname in dict.fromkeys(hostnames):
            yield from self._by_hostname.get(hostname, ())

    def keep(self, names: Iterable[str]) -> None:
        """Keep these nodes: from now on only those who may use kept nodes see them."""
        for name in names:
            space = self.spaces[name]
            self._shelf(space).keep(space)

    def take(self, space: Space, need: Resources) -> tuple[int, ...]:
        """Take this much from a space: the lowest free slot numbers, which are returned."""
        slots = space.lowest_free(need.slots)
        space.taken.update(slots)
        if need.empty:
            space.guests += 1
        self._shelf(space).change(space, -need.slots, -need.cpus, -need.memory_bytes)
        return slots

    def release(self, seat: Seat) -> None:
        """Give back what a seat holds; a node that is gone or takes no work gets nothing back."""
        space = self.spaces.get(seat.node)
        if space is not None:
            held = space.taken.intersection(seat.slots)
            space.taken -= held
            self._shelf(space).change(space, len(held), seat.cpus, seat.memory_bytes)

    def hold(self, seat: Seat) -> None:
        """Take what a seat holds: undoes a release."""
        space = self.spaces[seat.node]
        held = [slot for slot in seat.slots if slot < space.node.capacity.slots]
        space.taken.update(held)
        self._shelf(space).change(space, -len(held), -seat.cpus, -seat.memory_bytes)

    def copy(self) -> PoolBoard:
        """A scratch board as this one is now, with nothing kept."""
        return PoolBoard(self.key, [space.copy() for space in self.spaces.values()])

    def _shelf(self, space: Space) -> Shelf:
        return self.shelves[space.node.shard, space.node.capacity.slot_type]

    def _shelve(self, space: Space) -> None:
        kind = (space.node.shard, space.node.capacity.slot_type)
        shelf = self.shelves.get(kind)
        if shelf is None:
            shelf = self.shelves[kind] = Shelf(*kind)
        shelf.open.append((space.free, space.order, space))


class Board:
    """Every pool of a snapshot, by cluster and name."""

    __slots__ = ("pools",)

    def __init__(self, nodes: Iterable[Node], seats: Iterable[Seat] = (), *, any_state: bool = False) -> None:
        """The nodes that take work (with `any_state`: all of them), less what these seats hold."""
        spaces = {
            node.name: Space.empty(node, order)
            for order, node in enumerate(sorted(nodes, key=node_rank))
            if any_state or node.state is NodeState.UP
        }
        for seat in seats:
            if space := spaces.get(seat.node):
                space.occupy(seat)
        grouped: dict[PoolKey, list[Space]] = {}
        for space in spaces.values():
            grouped.setdefault((space.node.cluster, space.node.pool), []).append(space)
        self.pools = {key: PoolBoard(key, grouped[key]) for key in sorted(grouped, key=_pool_rank)}


def node_rank(node: Node) -> tuple[int, str]:
    """How nodes are ordered, and so ranked: shorter names first, so that n2 comes before n10."""
    return len(node.name), node.name


def _pool_rank(key: PoolKey) -> tuple[bool, str, bool, str]:
    """Where a run that names no pool is tried first: the cluster and the pool that need no settings."""
    cluster, pool = key
    return cluster != LOCAL_CLUSTER, cluster, pool != DEFAULT_POOL, pool
