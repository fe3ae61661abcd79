"""Place one role on the nodes it may use: on one if possible, otherwise on the fewest; or only count them.

Called by `gangs`. Every function is exact: it finds a placement if there is one, and returns None otherwise.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from tarmac.model.codec import replace
from tarmac.model.resources import Resources
from tarmac.model.spec import Target
from tarmac.sched.facts import Demand
from tarmac.sched.placing.space import Space
from tarmac.sched.placing.view import View


@dataclass(slots=True)
class Part:
    """The share of a role on one node: `count` replicas of `need` each."""

    demand: Demand
    space: Space
    need: Resources
    count: int


Way = tuple[int, int]
"""Nodes, and slots on each of them: a way to split slots evenly."""


def fit_role(demand: Demand, view: View, *, uneven: bool, way: Way | None = None) -> list[Part] | None:
    """A place for every replica, or for all slots, of a role that asks for something.

    `way` splits the slots evenly, if it is known to fit.
    """
    if demand.slots is None:
        return _deal(demand, view) if view.spread else _pack(demand, view)
    if uneven and demand.uneven:  # admission found no good equal split on the empty cluster
        return split_unevenly(demand, view)
    return _split_evenly(demand, view, splits(demand) if way is None else (way,))


def split_unevenly(demand: Demand, view: View) -> list[Part] | None:
    """All slots of a role on the fewest nodes, the biggest share first, so that rank 0 has the most."""
    shares = _fill(
        view,
        demand.slots or 0,
        need=lambda slots: share(demand, slots),
        most=lambda space, slots: min(space.free, slots),
    )
    if shares is None:
        return None
    shares.sort(key=lambda item: (-item[1], item[0].order))
    return [Part(demand, space, share(demand, slots), 1) for space, slots in shares]


def share(demand: Demand, slots: int) -> Resources:
    """The need of a role on a node that holds `slots` of its slots."""
    return _sized(demand.each, slots)


@lru_cache(maxsize=1024)
def _sized(each: Resources, slots: int) -> Resources:
    return replace(each, slots=slots)


def splits(demand: Demand) -> tuple[Way, ...]:
    """The ways to split the slots of a role evenly: on `nodes` nodes if set, otherwise the fewest first."""
    ways = equal_splits(demand.slots or 0)
    return ways if demand.nodes is None else tuple(way for way in ways if way[0] == demand.nodes)


@lru_cache(maxsize=1024)
def equal_splits(slots: int) -> tuple[Way, ...]:
    """The ways to split slots evenly, as (nodes, slots on each): the fewest nodes first."""
    return tuple((nodes, slots // nodes) for nodes in range(1, slots + 1) if slots % nodes == 0)


def _split_evenly(demand: Demand, view: View, ways: Iterable[Way]) -> list[Part] | None:
    for nodes, slots in ways:
        need = share(demand, slots)
        found = view.first(need, nodes)
        if len(found) == nodes:
            return [Part(demand, space, need, 1) for space in sorted(found, key=_order)]
    return None


def _pack(demand: Demand, view: View) -> list[Part] | None:
    """Bin-packing of equal replicas (C2)."""
    counts = _fill(
        view,
        demand.replicas or 0,
        need=demand.each.times,
        most=lambda space, replicas: space.room_for(demand.each, replicas),
    )
    if counts is None:
        return None
    counts.sort(key=lambda item: item[0].order)
    return [Part(demand, space, demand.each, count) for space, count in counts]


def _deal(demand: Demand, view: View) -> list[Part] | None:
    """Equal replicas, each placed on the node with the most free slots at that time (packing: spread)."""
    replicas = demand.replicas or 0
    each = demand.each
    choices = [
        (-space.free, space.order, 0, space.room_for(each, replicas), space)
        for space in islice(view.emptiest(each), replicas)
    ]
    counts: dict[Space, int] = {}
    heapq.heapify(choices)
    for _ in range(replicas):
        if not choices:
            return None
        used, order, count, room, space = choices[0]
        counts[space] = count + 1
        if count + 1 < room:
            heapq.heapreplace(choices, (used + max(each.slots, 1), order, count + 1, room, space))
        else:
            heapq.heappop(choices)
    return [Part(demand, space, each, counts[space]) for space in sorted(counts, key=_order)]


def _fill(
    view: View, amount: int, *, need: Callable[[int], Resources], most: Callable[[Space, int], int]
) -> list[tuple[Space, int]] | None:
    """Spread `amount` units over few nodes: the emptiest are filled, the rest goes where it fits best.

    So one node is used if any fits all, and only the rest uses a node in part. `need` gives the resources for
    a number of units, `most` the units that a node takes of a given number.
    """
    filled: dict[Space, int] = {}
    emptiest = view.emptiest(need(1))
    while amount > 0:
        rest = next((space for space in view.tightest(need(amount)) if space not in filled), None)
        if rest is not None:
            filled[rest] = amount
            break
        space = next(emptiest, None)
        if space is None:
            return None
        filled[space] = most(space, amount)
        amount -= filled[space]
    return list(filled.items())


def _order(space: Space) -> int:
    return space.order


_Demands = tuple[Demand, ...]

_AtLeast = Sequence[int]
"""The number of nodes with at least i free slots, by i."""


@dataclass(frozen=True, slots=True)
class Count:
    """The counting rule of a request: nodes of a shard and slot type (None: any).

    Most runs have one role that asks for slots alone, anywhere in a pool or a shard. For these the number of
    nodes with at least 1, 2, 3, ... free slots decides exactly whether they fit. Made once for each request
    class; used by `queue_walk` before nodes are chosen, and by `forecast` after each release.

    `ways` are numbers of nodes and of the slots that each of them needs. If there are none, `units` units of
    `each` slots must be free on nodes.
    """

    shard: str | None
    slot_type: str | None
    ways: tuple[Way, ...]
    each: int
    units: int

    @classmethod
    def of(cls, demands: _Demands, target: Target, *, uneven: bool) -> Count | None:
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

    def fits(self, at_least: _AtLeast) -> bool:
        """Whether the request fits nodes with these counts."""
        if not self.ways:
            return sum(at_least[self.each :: self.each]) >= self.units
        return self.way(at_least) is not None

    def way(self, at_least: _AtLeast) -> Way | None:
        """The first way that fits nodes with these counts."""
        most = len(at_least)
        for way in self.ways:
            if way[1] < most and at_least[way[1]] >= way[0]:
                return way
        return None


class Tally:
    """A `Count` on nodes that change: each change is counted, not all nodes again."""

    __slots__ = ("_count", "_fitting", "_lacking", "_units")

    def __init__(self, count: Count, at_least: _AtLeast) -> None:
        self._count = count
        self._units = 0 if count.ways else sum(at_least[count.each :: count.each])
        most = len(at_least)
        self._lacking = {slots: nodes - at_least[slots] for nodes, slots in count.ways if slots < most}
        self._fitting = sum(lacking <= 0 for lacking in self._lacking.values())

    def fits(self) -> bool:
        """Whether the request fits now."""
        if not self._count.ways:
            return self._units >= self._count.units
        return self._fitting > 0

    @property
    def way(self) -> Way | None:
        """The first way that fits now."""
        return next((way for way in self._count.ways if self._lacking.get(way[1], 1) <= 0), None)

    def fits_after(self, before: int, after: int) -> bool:
        """Whether the request fits once a node has fewer free slots."""
        if each := self._count.each:
            return self._units + after // each - before // each >= self._count.units
        fitting = self._fitting
        for slots, lacking in self._lacking.items():
            if lacking == 0 and after < slots <= before:
                fitting -= 1
        return fitting > 0

    @property
    def least(self) -> int:
        """The least number of free slots with which a node counts for a way that fits now."""
        fitting = (slots for slots, lacking in self._lacking.items() if lacking <= 0)
        return min(fitting, default=self._count.each)

    def change(self, before: int, after: int) -> None:
        """Change the number of free slots of a node."""
        each, lacking = self._count.each, self._lacking
        if each:
            self._units += after // each - before // each
        for slots in lacking:
            if before < slots <= after:
                lacking[slots] -= 1
                self._fitting += lacking[slots] == 0
            elif after < slots <= before:
                lacking[slots] += 1
                self._fitting -= lacking[slots] == 1
