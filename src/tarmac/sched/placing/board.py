"""The free resources on each node of a pool, in the order that placing needs.

`PoolState` keeps it up to date (`set_loads`). A cycle changes it temporarily (`take`, `reserve`) and restores
it at its end (`undo`). Nodes of equal shard, slot type and zone share a `Bucket`, sorted by free slots: best
fit is a bisection, and taking slots moves one entry.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import accumulate

from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER, Node, NodeState
from tarmac.model.resources import Resources, is_of_type
from tarmac.sched.placing.space import EVERY, NOBODY, OPEN, Bucket, Ghosts, Left, Load, Space, Zone, left_of

PoolKey = tuple[str, str]
"""Cluster and pool."""

NO_LOADS: Mapping[str, Mapping[str, Load]] = {}


class PoolBoard:
    """The nodes of one pool; `closed` of them take no work. `free` counts slots by type (None: all).

    With `spread` runs are spread over the nodes, otherwise packed.
    """

    __slots__ = (
        "_any_state",
        "_at_least",
        "_by_hostname",
        "_journal",
        "_reservation_count",
        "_width",
        "buckets",
        "closed",
        "free",
        "key",
        "spaces",
        "spread",
    )

    def __init__(self, key: PoolKey, spaces: Iterable[Space], *, any_state: bool = False) -> None:
        """Take over these spaces, which are in no bucket yet; with `any_state` all of them take work."""
        self.key = key
        self.spaces = {space.node.name: space for space in spaces}
        self.buckets: dict[tuple[str | None, str | None, Zone], Bucket] = {}
        self.free: dict[str | None, int] = {None: 0}
        self.closed = 0
        self.spread = False
        self._any_state = any_state
        self._by_hostname: dict[str, list[Space]] | None = None
        self._journal: list[tuple[Space, Left]] = []
        self._reservation_count = 0
        self._at_least: dict[object, list[int]] = {}
        self._width = 1 + max((space.node.capacity.slots for space in self.spaces.values()), default=0)
        by_bucket: dict[Bucket, list[Space]] = {}
        for space in self.spaces.values():
            if any_state or space.node.state is NodeState.UP:
                space.bucket = self._bucket(space.node)
                by_bucket.setdefault(space.bucket, []).append(space)
                self._count(space, space.free)
            else:
                self.closed += 1
        for bucket, together in by_bucket.items():
            bucket.fill(together)

    @property
    def touched(self) -> bool:
        """Whether `undo` has anything to give back."""
        return bool(self._journal)

    @property
    def reservations(self) -> range:
        """The numbers of all reservations."""
        return range(self._reservation_count)

    @property
    def unreserved(self) -> int:
        """The free slots of the nodes without a reservation of this cycle."""
        counted = (bucket.counts[OPEN] for bucket in self.buckets.values())
        return sum(free * nodes for counts in counted for free, nodes in enumerate(counts))

    def free_of(self, slot_type: str | None) -> int:
        """The free slots that a request for this type may have."""
        if slot_type is None:
            return self.free[None]
        return sum(
            count for kind, count in self.free.items() if kind is not None and is_of_type(kind, slot_type)
        )

    def buckets_of(self, shard: str | None, slot_type: str | None) -> list[Bucket]:
        """The buckets of a shard and slot type (None: any)."""
        return [
            bucket
            for bucket in self.buckets.values()
            if shard in (None, bucket.shard) and is_of_type(bucket.slot_type, slot_type)
        ]

    def named(self, hostnames: Iterable[str]) -> Iterator[Space]:
        """The spaces of nodes with these host names that take work."""
        if self._by_hostname is None:
            self._by_hostname = {}
            for space in self.spaces.values():
                self._by_hostname.setdefault(space.node.hostname, []).append(space)
        for hostname in dict.fromkeys(hostnames):
            for space in self._by_hostname.get(hostname, ()):
                bucket = space.bucket
                if bucket is not None and (bucket.shard, bucket.slot_type, bucket.zone) in self.buckets:
                    yield space

    def within(self, zones: Collection[Zone]) -> PoolBoard:
        """The part of the board in these zones, to be read until the board changes."""
        part = copy(self)
        part.buckets = {kind: bucket for kind, bucket in self.buckets.items() if bucket.zone in zones}
        part._at_least = {}
        return part

    def at_least(
        self,
        shard: str | None,
        slot_type: str | None,
        reservations: Sequence[int] = (),
        ghosts: Ghosts = NOBODY,
    ) -> Sequence[int]:
        """How many nodes, open, in these reservations or `ghosts`, have at least i free slots, by i."""
        every = len(reservations) == self._reservation_count
        numbers = (EVERY,) if every else (OPEN, *reservations)
        key = (shard, slot_type, bool(ghosts), *numbers)
        found = self._at_least.get(key)
        if found is None:
            found = self._at_least[key] = self._cumulated(shard, slot_type, numbers)
            buckets = self.buckets_of(shard, slot_type)
            for space, ghost in ghosts.items():
                for slots in range(ghost.free + 1 if space.bucket in buckets else 0):
                    found[slots] += 1
        return found

    def _cumulated(self, shard: str | None, slot_type: str | None, numbers: Sequence[int]) -> list[int]:
        lists = [
            bucket.counts[number]
            for bucket in self.buckets_of(shard, slot_type)
            for number in numbers
            if number in bucket.counts
        ]
        counts = lists[0] if len(lists) == 1 else [sum(column) for column in zip(*lists, strict=True)]
        at_least = list(accumulate(reversed(counts)))
        at_least.reverse()
        return at_least

    def set_loads(self, space: Space, loads: Iterable[Load]) -> None:
        """Set the free resources of a space from the loads of its node."""
        self._set(space, left_of(space.node, loads))

    def restate(self, space: Space, node: Node) -> None:
        """Change the state of a space's node, which is otherwise the same."""
        if space.bucket is not None:
            space.bucket.drop(space)
            self._at_least.clear()
            self._count(space, -space.free)
            space.bucket = None
            self.closed += 1
        space.node = node
        if node.state is NodeState.UP:
            self.closed -= 1
            space.bucket = self._bucket(node)
            space.bucket.put(space)
            space.bucket.count_weightless(space)
            self._count(space, space.free)

    def take(self, space: Space, need: Resources) -> tuple[int, ...]:
        """Take these resources from a space until `undo`, and return the lowest free slot numbers."""
        slots = space.lowest_free(need.slots)
        taken = space.taken
        for slot in slots:
            taken |= 1 << slot
        before = (space.free, space.cpus, space.memory_bytes, space.taken, space.weightless)
        self._journal.append((space, before))
        free = space.free - need.slots
        memory_bytes = space.memory_bytes - need.memory_bytes
        weightless = space.weightless + need.empty
        self._set(space, (free, space.cpus - need.cpus, memory_bytes, taken, weightless))
        return slots

    def reserve(self, names: Iterable[str]) -> int:
        """Reserve these open nodes until `undo`, and return the number of the reservation."""
        number = self._reservation_count
        self._reservation_count += 1
        by_bucket: dict[Bucket, list[Space]] = {}
        for name in names:
            space = self.spaces[name]
            if space.bucket is not None and space.reserved == OPEN:
                by_bucket.setdefault(space.bucket, []).append(space)
        for bucket, spaces in by_bucket.items():
            bucket.reserve(spaces, number)
        self._at_least.clear()
        return number

    def undo(self) -> None:
        """Give back all that was taken and reserved."""
        for space, before in reversed(self._journal):
            self._set(space, before)
        self._journal.clear()
        if self._reservation_count:
            self._reservation_count = 0
            self._at_least.clear()
            for bucket in self.buckets.values():
                if bucket.reserved:
                    bucket.open_all()

    def _set(self, space: Space, left: Left) -> None:
        bucket = space.bucket
        if bucket is None:
            space.set(left)
            return
        weightless = space.weightless
        if left[0] != space.free:
            self._count(space, left[0] - space.free)
            bucket.move(space, left)
        else:
            space.set(left)
        if weightless != space.weightless:
            bucket.count_weightless(space)

    def _count(self, space: Space, slots: int) -> None:
        slot_type = space.node.capacity.slot_type
        self._at_least.clear()
        self.free[None] += slots
        if slot_type is not None:
            self.free[slot_type] = self.free.get(slot_type, 0) + slots

    def _bucket(self, node: Node) -> Bucket:
        kind = (node.shard, node.capacity.slot_type, () if self._any_state else node.reservations)
        bucket = self.buckets.get(kind)
        if bucket is None:
            bucket = self.buckets[kind] = Bucket(*kind, self._width)
        return bucket


def boards(
    nodes: Iterable[Node], loads: Mapping[str, Mapping[str, Load]] = NO_LOADS, *, any_state: bool = False
) -> dict[PoolKey, PoolBoard]:
    """A board for each pool that has nodes, in the order in which pools are tried.

    `loads` has what runs hold, by node and run; with `any_state` nodes that are down take work as well.
    """
    grouped: dict[PoolKey, list[Space]] = {}
    for order, node in enumerate(sorted(nodes, key=node_rank)):
        space = Space.empty(node, order)
        loads_here = loads.get(node.name, {})
        if loads_here or (node.drained_slots and not any_state):
            space.set(left_of(node, loads_here.values()))
        grouped.setdefault((node.cluster, node.pool), []).append(space)
    return {key: PoolBoard(key, grouped[key], any_state=any_state) for key in sorted(grouped, key=pool_rank)}


def node_rank(node: Node) -> tuple[int, str]:
    """The order of nodes: shorter names first, so that n2 comes before n10."""
    return len(node.name), node.name


def pool_rank(key: PoolKey) -> tuple[bool, str, bool, str]:
    """The order in which pools are tried for a run that names none: the default cluster and pool first."""
    cluster, pool = key
    return cluster != LOCAL_CLUSTER, cluster, pool != DEFAULT_POOL, pool
