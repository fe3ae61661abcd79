"""Place a whole run on the nodes of one pool: every role of it, or nothing.

Called by `cycle`, `admission` and `forecast` with the same rules: a run that fits an empty pool is placed
when the pool is empty. A gang of one role is fitted exactly (`fitting`), a gang of several by a search of
bounded length (`search`).
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.model.resources import Resources, is_of_type
from tarmac.model.run import Allocation, WorkerPlacement
from tarmac.sched.facts import Demand
from tarmac.sched.placing.board import PoolBoard
from tarmac.sched.placing.fitting import Part, Way, fit_role
from tarmac.sched.placing.search import search
from tarmac.sched.placing.view import View

NOTHING = Resources()


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
        parts = search(nonempty, view, uneven=uneven)
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
                    slots=pool.take(part.space, part.need),
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
        placed.append(Part(demand, space, NOTHING, demand.replicas or 1))
    return placed
