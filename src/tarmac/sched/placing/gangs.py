"""Place a whole run on the nodes of one pool: every role of it, or nothing.

Called by `cycle`, `admission` and `forecast` with the same rules: a run that fits an empty pool is placed
when the pool is empty. A gang of one role is fitted exactly (`fitting`), a gang of several by a search of
bounded length (`_search`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from tarmac.model.progress import WorkerPlacement
from tarmac.model.resources import Resources, is_of_type
from tarmac.model.run import Allocation
from tarmac.sched.facts import Demand
from tarmac.sched.placing.board import PoolBoard
from tarmac.sched.placing.fitting import Part, Way, fit_role, share, split_unevenly, splits
from tarmac.sched.placing.space import Space
from tarmac.sched.placing.view import View

_NOTHING = Resources()


def fit(demands: Sequence[Demand], view: View, *, uneven: bool, way: Way | None = None) -> list[Part] | None:
    """A place for the whole gang, in the order of its roles; None if there is none.

    `uneven` allows the slots of roles that permit it to be split unevenly if no equal split fits. `way`
    splits the one role that asks for something, if known.
    """
    nonempty = [demand for demand in demands if not demand.empty]
    parts: list[Part] | None = []
    if len(nonempty) == 1:
        parts = fit_role(nonempty[0], view, uneven=uneven, way=way)
    elif nonempty:
        parts = _search(nonempty, view, uneven=uneven)
    if parts is None or len(nonempty) == len(demands):
        return parts
    return _with_weightless(demands, parts, view)


def allot(parts: Sequence[Part], pool: PoolBoard) -> Allocation:
    """Take the needs of the parts from the board, and return the allocation."""
    placements: list[WorkerPlacement] = []
    numbers: dict[str, int] = {}
    for part in parts:
        role = part.demand.role
        for _ in range(part.count):
            placements.append(
                WorkerPlacement(
                    role=role,
                    replica=numbers.get(role, 0),
                    node=part.space.node.name,
                    slots=pool.take(pool.spaces[part.space.node.name], part.need),
                    cpus=part.need.cpus,
                    memory_bytes=part.need.memory_bytes,
                )
            )
            numbers[role] = numbers.get(role, 0) + 1
    types = {part.space.node.capacity.slot_type or "" for part in parts if part.need.slots} - {""}
    return Allocation(
        cluster=pool.key[0], pool=pool.key[1], placements=tuple(placements), slot_types=tuple(sorted(types))
    )


def _with_weightless(demands: Sequence[Demand], parts: list[Part], view: View) -> list[Part] | None:
    """Add the roles that ask for nothing: beside others if allowed, or where few weightless replicas are."""
    placed: list[Part] = []
    for demand in demands:
        if not demand.empty:
            placed += [part for part in parts if part.demand is demand]
            continue
        slot_type = demand.each.slot_type
        beside = (part.space for part in parts if is_of_type(part.space.node.capacity.slot_type, slot_type))
        space = next(beside, None) or view.least_weightless(slot_type)
        if space is None:
            return None
        placed.append(Part(demand, space, _NOTHING, demand.replicas or 1))
    return placed


_SEARCH_STEPS = 5_000
"""The number of nodes that a search looks at before it gives up, beyond those of its first descents."""


def _search(demands: Sequence[Demand], view: View, *, uneven: bool) -> list[Part] | None:
    """A place for every role, trying the ways to split them with the fewest chunks first.

    Depth first, the biggest chunk first; the first descent is the usual best fit, decreasing. The number of
    steps is bounded, so that one unusual run does not delay a cycle.
    """
    if any(fit_role(demand, view, uneven=uneven) is None for demand in demands):
        return None
    budget = _Budget(_SEARCH_STEPS)
    ways = product(*(_ways(demand, uneven=uneven) for demand in demands))
    for way in sorted(ways, key=lambda cuts: sum(len(chunks or ()) for chunks in cuts)):
        chunks = sorted((chunk for cut in way for chunk in cut or ()), key=_bulk, reverse=True)
        budget.grant(2 * len(chunks))
        poured = [demand for demand, cut in zip(demands, way, strict=True) if cut is None]
        parts = _place_chunks(chunks, poured, view, budget)
        if parts is not None:
            return [part for demand in demands for part in parts if part.demand is demand]
    return None


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A part that must be on one node: a replica, or a role's share of a node (`one_per_node`: alone)."""

    demand: Demand
    need: Resources
    one_per_node: bool


def _ways(demand: Demand, *, uneven: bool) -> list[list[_Chunk] | None]:
    """The ways to cut a role into chunks. None: its slots are poured unevenly over the rest of the nodes."""
    if demand.slots is None:
        return [[_Chunk(demand, demand.each, False)] * (demand.replicas or 0)]
    ways: list[list[_Chunk] | None] = [
        [_Chunk(demand, share(demand, slots), True)] * nodes for nodes, slots in splits(demand)
    ]
    return [*ways, None] if uneven and demand.uneven else ways


class _Budget:
    """The number of steps that a search may still take."""

    __slots__ = ("steps",)

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def grant(self, steps: int) -> None:
        """Allow more steps."""
        self.steps += steps

    def spend(self) -> bool:
        """Spend a step; False if there is none left."""
        self.steps -= 1
        return self.steps >= 0


@dataclass(slots=True)
class _Load:
    """The chunks that the search has put on a node so far."""

    need: Resources = _NOTHING
    chunks: list[_Chunk] = field(default_factory=list)

    def takes(self, chunk: _Chunk, space: Space) -> bool:
        if chunk.one_per_node and any(other.demand is chunk.demand for other in self.chunks):
            return False
        return space.has(self.need.plus(chunk.need))

    def add(self, chunk: _Chunk) -> None:
        self.chunks.append(chunk)
        self.need = self.need.plus(chunk.need)

    def remove_last(self) -> None:
        self.chunks.pop()
        self.need = _NOTHING
        for chunk in self.chunks:
            self.need = self.need.plus(chunk.need)


_Loads = dict[Space, _Load]


def _place_chunks(
    chunks: Sequence[_Chunk], poured: Sequence[Demand], view: View, budget: _Budget
) -> list[Part] | None:
    """A node for each chunk, and a place for the poured roles in the rest."""
    if not poured and (space := _one_node(chunks, view)):
        return [Part(chunk.demand, space, chunk.need, 1) for chunk in chunks]
    loads: _Loads = {}
    chosen: list[Space] = []
    tries: list[Iterator[Space]] = []
    while True:
        if len(chosen) < len(chunks):
            last = chosen[-1] if chosen and chunks[len(chosen) - 1] == chunks[len(chosen)] else None
            tries.append(_choices(chunks[len(chosen)], last, view, loads, budget))
        else:
            rest = _pour(poured, view, loads) if budget.spend() else None
            if rest is not None:
                return _parts(chunks, chosen) + rest
            tries.append(iter(()))  # a dead end: go back
        while (space := next(tries[-1], None)) is None:
            tries.pop()
            if not tries:
                return None
            _take_back(chosen.pop(), loads)
        loads.setdefault(space, _Load()).add(chunks[len(chosen)])
        chosen.append(space)


def _one_node(chunks: Sequence[_Chunk], view: View) -> Space | None:
    """A node that fits all chunks, if they may share one."""
    roles_per_node = [chunk.demand.role for chunk in chunks if chunk.one_per_node]
    types = {chunk.need.slot_type for chunk in chunks} - {None}
    if len(set(roles_per_node)) < len(roles_per_node) or len(types) > 1:
        return None
    total = _NOTHING
    for chunk in chunks:
        total = total.plus(chunk.need)
    return next(view.choice(total), None)


def _choices(
    chunk: _Chunk, last: Space | None, view: View, loads: _Loads, budget: _Budget
) -> Iterator[Space]:
    """Nodes for a chunk: those in use, fullest first; then one of each sort of unused ones.

    The first is the node of the `last` chunk if that was equal, to fill it up. Deeper tries change the loads,
    but restore them before this generator resumes.
    """
    if last is not None and loads[last].takes(chunk, last):
        if not budget.spend():
            return
        yield last
    slot_type = chunk.need.slot_type
    used = [
        space
        for space, load in loads.items()
        if space is not last
        and is_of_type(space.node.capacity.slot_type, slot_type)
        and load.takes(chunk, space)
    ]
    used.sort(key=lambda space: (space.free - loads[space].need.slots, space.order))
    for space in used:
        if not budget.spend():
            return
        yield space
    seen = set()
    for space in view.choice(chunk.need) if chunk.one_per_node else view.emptiest(chunk.need):
        if space in loads:
            continue
        if not budget.spend():
            return
        sort = (space.free, space.cpus, space.memory_bytes, space.node.capacity.slot_type)
        if sort not in seen:
            seen.add(sort)
            yield space


def _pour(poured: Sequence[Demand], view: View, loads: _Loads) -> list[Part] | None:
    """Uneven splits of roles over the rest of the nodes, one role after another."""
    parts: list[Part] = []
    taken = {space: load.need for space, load in loads.items()}
    for demand in poured:
        found = split_unevenly(demand, view.less(taken))
        if found is None:
            return None
        touched = {space.node.name: space for space in taken}
        for part in found:
            space = touched.get(part.space.node.name, part.space)
            taken[space] = taken.get(space, _NOTHING).plus(part.need)
            parts.append(replace(part, space=space))
    return parts


def _parts(chunks: Sequence[_Chunk], spaces: Sequence[Space]) -> list[Part]:
    """The parts in the order of node ranks, the biggest share of a role first."""
    seated = sorted(zip(chunks, spaces, strict=True), key=lambda item: (-item[0].need.slots, item[1].order))
    return [Part(chunk.demand, space, chunk.need, 1) for chunk, space in seated]


def _take_back(space: Space, loads: _Loads) -> None:
    loads[space].remove_last()
    if not loads[space].chunks:
        del loads[space]


def _bulk(chunk: _Chunk) -> tuple[int, float, int]:
    return chunk.need.slots, chunk.need.cpus, chunk.need.memory_bytes
