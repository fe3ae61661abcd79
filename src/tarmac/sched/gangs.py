"""A whole run on the nodes of one pool, all or none: every role of it, or nothing.

Called by `planning`, `admission` and `forecast`, always with the same rules: what fits an empty pool is
placed when the pool is empty. A gang of one role is fitted exactly (`fitting`); one of several by a
search over its chunks whose length is bounded, so that one odd run cannot hold up the pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from tarmac.model.resources import Resources
from tarmac.model.run import Allocation, Seat
from tarmac.sched.board import PoolBoard, Space
from tarmac.sched.facts import Demand
from tarmac.sched.fitting import Part, equal_splits, fit_role, share
from tarmac.sched.view import View

SEARCH_STEPS = 5_000
"""How many nodes a search looks at before it gives up; the first try alone needs few per chunk."""

NOTHING = Resources()


def fit(demands: Sequence[Demand], view: View, *, uneven: bool) -> list[Part] | None:
    """A place for the whole gang, in the order of its roles; None if there is none.

    `uneven` allows the slots of a role to be split unevenly where no equal split does.
    """
    asking = [demand for demand in demands if not demand.empty]
    parts: list[Part] | None = []
    if len(asking) == 1:
        parts = fit_role(asking[0], view, uneven=uneven)
    elif asking:
        parts = _search(asking, view, uneven=uneven)
    if parts is None or len(asking) == len(demands):
        return parts
    return _with_guests(demands, parts, view)


def allot(parts: Sequence[Part], pool: PoolBoard) -> Allocation:
    """Take what the parts need from the board, and grant it."""
    seats: list[Seat] = []
    numbers: dict[str, int] = {}
    for part in parts:
        role = part.demand.role
        for _ in range(part.count):
            seats.append(
                Seat(
                    role=role,
                    replica=numbers.get(role, 0),
                    node=part.space.node.name,
                    slots=pool.take(part.space, part.need),
                    cpus=part.need.cpus,
                    memory_bytes=part.need.memory_bytes,
                )
            )
            numbers[role] = numbers.get(role, 0) + 1
    return Allocation(cluster=pool.key[0], seats=tuple(seats))


def _with_guests(demands: Sequence[Demand], parts: list[Part], view: View) -> list[Part] | None:
    """Add the roles that ask for nothing: beside the others if they may, else where few guests are."""
    placed: list[Part] = []
    for demand in demands:
        if not demand.empty:
            placed += [part for part in parts if part.demand is demand]
            continue
        wanted = demand.each.slot_type
        beside = (part.space for part in parts if wanted in (None, part.space.node.capacity.slot_type))
        space = next(beside, None) or view.least_visited(wanted)
        if space is None:
            return None
        placed.append(Part(demand, space, NOTHING, demand.replicas or 1))
    return placed


@dataclass(frozen=True, slots=True)
class _Chunk:
    """What must lie on one node together: a replica, or a role's share of a node (`apart`: one per node)."""

    demand: Demand
    need: Resources
    apart: bool


def _search(demands: Sequence[Demand], view: View, *, uneven: bool) -> list[Part] | None:
    """Try every way to split the roles, the fewest nodes first, within one budget of steps."""
    if any(fit_role(demand, view, uneven=uneven) is None for demand in demands):
        return None
    budget = _Budget(SEARCH_STEPS)
    ways = product(*(_ways(demand, view, uneven=uneven) for demand in demands))
    for way in sorted(ways, key=lambda chunks: sum(map(len, chunks))):
        chunks = sorted((chunk for role in way for chunk in role), key=_bulk, reverse=True)
        spaces = _on_one_node(chunks, view) or _seat(chunks, view, budget)
        if spaces is not None:
            return _parts(demands, chunks, spaces)
    return None


def _ways(demand: Demand, view: View, *, uneven: bool) -> list[list[_Chunk]]:
    """The ways to cut a role into chunks."""
    if demand.slots is None:
        return [[_Chunk(demand, demand.each, False)] * (demand.replicas or 0)]
    ways = [
        [_Chunk(demand, share(demand, slots), True)] * nodes for nodes, slots in equal_splits(demand.slots)
    ]
    alone = fit_role(demand, view, uneven=True) if uneven else None
    if alone is not None:
        ways.append([_Chunk(demand, part.need, True) for part in alone])
    return ways


def _parts(demands: Sequence[Demand], chunks: Sequence[_Chunk], spaces: Sequence[Space]) -> list[Part]:
    seated = sorted(zip(chunks, spaces, strict=True), key=lambda item: (-item[0].need.slots, item[1].order))
    return [
        Part(demand, space, chunk.need, 1)
        for demand in demands
        for chunk, space in seated
        if chunk.demand is demand
    ]


def _on_one_node(chunks: Sequence[_Chunk], view: View) -> list[Space] | None:
    roles_apart = [chunk.demand.role for chunk in chunks if chunk.apart]
    types = {chunk.need.slot_type for chunk in chunks} - {None}
    if len(set(roles_apart)) < len(roles_apart) or len(types) > 1:
        return None
    total = NOTHING
    for chunk in chunks:
        total = total.plus(chunk.need)
    space = next(view.tightest(total), None)
    return None if space is None else [space] * len(chunks)


class _Budget:
    """A number of steps that a search may still take."""

    __slots__ = ("steps",)

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def spend(self) -> bool:
        """Whether there was a step left."""
        self.steps -= 1
        return self.steps >= 0


@dataclass(slots=True)
class _Load:
    """What the search has laid on a node so far."""

    need: Resources = NOTHING
    chunks: list[_Chunk] = field(default_factory=list)

    def takes(self, chunk: _Chunk, space: Space) -> bool:
        if chunk.apart and any(other.demand is chunk.demand for other in self.chunks):
            return False
        return space.has(self.need.plus(chunk.need))

    def add(self, chunk: _Chunk) -> None:
        self.chunks.append(chunk)
        self.need = self.need.plus(chunk.need)

    def remove_last(self) -> None:
        self.chunks.pop()
        self.need = NOTHING
        for chunk in self.chunks:
            self.need = self.need.plus(chunk.need)


def _seat(chunks: Sequence[_Chunk], view: View, budget: _Budget) -> list[Space] | None:
    """A node for each chunk, by depth-first search; the first descent is the usual best fit, decreasing."""
    loads: dict[Space, _Load] = {}
    chosen: list[Space] = []
    tries: list[Iterator[Space]] = []
    while len(chosen) < len(chunks):
        chunk = chunks[len(chosen)]
        if len(tries) == len(chosen):
            tries.append(_choices(chunk, view, loads, budget))
        space = next(tries[-1], None)
        if space is not None:
            loads.setdefault(space, _Load()).add(chunk)
            chosen.append(space)
            continue
        tries.pop()
        if not chosen:
            return None
        last = chosen.pop()
        loads[last].remove_last()
        if not loads[last].chunks:
            del loads[last]
    return chosen


def _choices(chunk: _Chunk, view: View, loads: dict[Space, _Load], budget: _Budget) -> Iterator[Space]:
    """Nodes for a chunk: those used already, fullest first; then one of each sort of unused ones.

    The choices are listed before they are tried, because trying changes the loads.
    """
    wanted = chunk.need.slot_type
    used = [
        space
        for space, load in loads.items()
        if wanted in (None, space.node.capacity.slot_type) and load.takes(chunk, space)
    ]
    used.sort(key=lambda space: (space.free - loads[space].need.slots, space.order))
    yield from [space for space in used if budget.spend()]
    seen = set()
    unused = view.tightest(chunk.need) if chunk.apart else view.emptiest(chunk.need)
    taken = frozenset(loads)
    for space in unused:
        if not budget.spend():
            return
        sort = (space.free, space.cpus, space.memory_bytes, space.node.capacity.slot_type)
        if space not in taken and sort not in seen:
            seen.add(sort)
            yield space


def _bulk(chunk: _Chunk) -> tuple[int, float, int]:
    return chunk.need.slots, chunk.need.cpus, chunk.need.memory_bytes
