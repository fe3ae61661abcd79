"""Place one role on the nodes it may use: on one if possible, otherwise on the fewest.

Called by `gangs`. Every function is exact: it finds a placement if there is one, and returns None otherwise.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice

from tarmac.model.copying import changed
from tarmac.model.resources import Resources
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
    return changed(each, slots=slots)


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
    view: View,
    amount: int,
    *,
    need: Callable[[int], Resources],
    most: Callable[[Space, int], int],
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
