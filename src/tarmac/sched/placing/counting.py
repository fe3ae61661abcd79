"""Whether one role fits, by counting nodes by their free slots: exact, and without looking at the nodes.

Most runs have one role that asks for slots alone, anywhere in a pool or a shard. For these it suffices to
know the number of nodes with at least 1, 2, 3, ... free slots. Made once for each request class; used by
`queue_walk` before nodes are chosen, and by `forecast` after each release.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.model.spec import Target
from tarmac.sched.facts import Demand
from tarmac.sched.placing.fitting import Way, splits

Demands = tuple[Demand, ...]

AtLeast = Sequence[int]
"""The number of nodes with at least i free slots, by i."""


@dataclass(frozen=True, slots=True)
class Count:
    """The counting rule of a request: nodes of a shard and slot type (None: any).

    `ways` are numbers of nodes and of the slots that each of them needs. If there are none, `units` units of
    `each` slots must be free on nodes.
    """

    shard: str | None
    slot_type: str | None
    ways: tuple[Way, ...]
    each: int
    units: int

    @classmethod
    def of(cls, demands: Demands, target: Target, *, uneven: bool) -> Count | None:
        """The counting rule for this request; None if counting does not suffice."""
        nonempty = [demand for demand in demands if not demand.empty]
        if len(nonempty) != 1 or target.hostnames or target.excluded:
            return None
        (demand,) = nonempty
        each = demand.each
        if each.cpus or each.memory_bytes:
            return None
        where = (target.shard, each.slot_type)
        if demand.slots is None:
            return cls(*where, (), each.slots, demand.replicas or 0)
        if demand.uneven and uneven:
            return cls(*where, (), 1, demand.slots)
        ways = splits(demand)
        return cls(*where, ways, 0, 0) if ways else None

    def fits(self, at_least: AtLeast) -> bool:
        """Whether the request fits nodes with these counts."""
        if not self.ways:
            return sum(at_least[self.each :: self.each]) >= self.units
        return self.way(at_least) is not None

    def way(self, at_least: AtLeast) -> Way | None:
        """The first way that fits nodes with these counts."""
        most = len(at_least)
        for way in self.ways:
            if way[1] < most and at_least[way[1]] >= way[0]:
                return way
        return None


class Tally:
    """A `Count` on nodes that change: each change is counted, not all nodes again."""

    __slots__ = ("_count", "_units", "_ways")

    def __init__(self, count: Count, at_least: AtLeast) -> None:
        self._count = count
        self._units = 0 if count.ways else sum(at_least[count.each :: count.each])
        most = len(at_least)
        self._ways = [
            [slots, nodes - (at_least[slots] if slots < most else 0)] for nodes, slots in count.ways
        ]

    def fits(self) -> bool:
        """Whether the request fits now."""
        if not self._count.ways:
            return self._units >= self._count.units
        return any(lacking <= 0 for _, lacking in self._ways)

    @property
    def way(self) -> Way | None:
        """The first way that fits now."""
        ways = zip(self._count.ways, self._ways, strict=True)
        return next((way for way, (_, lacking) in ways if lacking <= 0), None)

    def change(self, before: int, after: int) -> None:
        """Change the number of free slots of a node."""
        each = self._count.each
        if each:
            self._units += after // each - before // each
        less, more, step = (before, after, -1) if before < after else (after, before, 1)
        for way in self._ways:
            if less < way[0] <= more:
                way[1] += step
