"""Whether one role fits, by counting nodes with so many free slots: exact, and without looking at the nodes.

Most runs have one role that asks for slots alone, anywhere in a pool or a shard. For these the number of
nodes with at least 1, 2, 3, ... free slots says it all. Made once for each request class; asked by
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
"""How many nodes have at least so many free slots, by that number."""


@dataclass(frozen=True, slots=True)
class Count:
    """What has to be counted: nodes of a shard and slot type (None: any).

    `ways` are numbers of nodes and of the slots that each of them must have; or, if there are none, `wanted`
    units of `each` slots must be free on nodes.
    """

    shard: str | None
    slot_type: str | None
    ways: tuple[Way, ...]
    each: int
    wanted: int

    @classmethod
    def of(cls, demands: Demands, target: Target, *, uneven: bool) -> Count | None:
        """What is to be counted for this request; None if counting does not do."""
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
        """Whether the request fits nodes of which so many have at least so many free slots."""
        if not self.ways:
            return sum(at_least[self.each :: self.each]) >= self.wanted
        return self.way(at_least) is not None

    def way(self, at_least: AtLeast) -> Way | None:
        """The first way that nodes allow of which so many have at least so many free slots."""
        most = len(at_least)
        for way in self.ways:
            if way[1] < most and at_least[way[1]] >= way[0]:
                return way
        return None


class Growing:
    """The same while nodes come free one after another: what each adds is counted, not all of them anew."""

    __slots__ = ("_count", "_units", "_ways")

    def __init__(self, count: Count, at_least: AtLeast) -> None:
        self._count = count
        most = len(at_least)
        self._units = 0 if count.ways else sum(at_least[count.each :: count.each])
        self._ways = [
            [slots, nodes - (at_least[slots] if slots < most else 0)] for nodes, slots in count.ways
        ]

    @property
    def way(self) -> Way | None:
        """The way that fits."""
        ways = zip(self._count.ways, self._ways, strict=True)
        return next((way for way, (_, lacking) in ways if lacking <= 0), None)

    def add(self, before: int, after: int) -> bool:
        """A node has more free slots than it had: whether the request fits by that."""
        count = self._count
        if not count.ways:
            self._units += after // count.each - before // count.each
            return self._units >= count.wanted
        fits = False
        for way in self._ways:
            if before < way[0] <= after:
                way[1] -= 1
                fits = fits or way[1] <= 0
        return fits
