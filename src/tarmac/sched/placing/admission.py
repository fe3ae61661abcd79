"""Admission: whether a request fits the empty cluster, and if not, the biggest that would.

The ledger checks each request class once, and `explain` uses it. The empty cluster includes drained and down
nodes, because they can come back. A cluster that has not reported a node yet is assumed to fit.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tarmac.model.cluster import Node, Packing, Pool, admits
from tarmac.model.codec import replace
from tarmac.model.spec import Target
from tarmac.sched.facts import Demand, requested_slots
from tarmac.sched.placing.board import PoolBoard, PoolKey, boards
from tarmac.sched.placing.fitting import Count, Part, split_unevenly
from tarmac.sched.placing.gangs import fit
from tarmac.sched.placing.view import View

SCATTERED = 2
"""The factor over the fewest possible nodes above which an equal split is not worth having."""

TRIED = 64
"""The number of amounts that are tried one by one: about the most slots of a node."""

Demands = tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Whether a request can ever start, and in which pools, the first one first.

    `uneven`: the slots of a role are split unevenly, because an equal split does not fit or would be
    scattered. A request that no pool fits still `fits` if a cluster has not reported its nodes.
    """

    fits: bool
    pools: tuple[PoolKey, ...] = ()
    uneven: bool = False


class Admission:
    """Checks requests against the empty cluster, which it builds on first use."""

    __slots__ = ("_boards", "_nodes", "_pools")

    def __init__(self, pools: Iterable[Pool], nodes: Sequence[Node]) -> None:
        self._pools = {pool.key: pool for pool in pools}
        self._nodes = nodes
        self._boards: Mapping[PoolKey, PoolBoard] | None = None

    def feasibility(self, demands: Demands, target: Target) -> Feasibility:
        """The pools whose empty nodes fit this request, evenly split if possible."""
        for uneven in (False, True):
            pools = tuple(self._fitting(demands, target, uneven=uneven))
            if pools:
                return Feasibility(fits=True, pools=pools, uneven=uneven)
        return Feasibility(fits=self.silent(target))

    def silent(self, target: Target) -> bool:
        """Whether a cluster that the target allows has not reported any node yet."""
        reporting = {node.cluster for node in self._nodes}
        known = {cluster for cluster, _ in self._pools}
        return not reporting or any(admits(cluster, target.cluster) for cluster in known - reporting)

    def largest(self, demands: Demands, target: Target) -> str | None:
        """The most similar request that the empty cluster fits, in words."""
        smaller = largest(demands, lambda less: self._fits(less, target))
        loose = tuple(
            replace(demand, uneven=demand.slots is not None and demand.nodes is None) for demand in demands
        )
        if loose == demands or not self._fits(loose, target):
            return smaller
        unequal = "the same with `uneven: true`, split unequally"
        return f"{unequal}; or {smaller}" if smaller else unequal

    def _fits(self, demands: Demands, target: Target) -> bool:
        return any(True for _ in self._fitting(demands, target, uneven=True))

    def _fitting(self, demands: Demands, target: Target, *, uneven: bool) -> Iterator[PoolKey]:
        if self._boards is None:
            self._boards = boards(self._nodes, any_state=True)
            for key, board in self._boards.items():
                rules = self._pools.get(key)
                board.spread = rules is not None and rules.packing is Packing.SPREAD
        count = Count.of(demands, target, uneven=uneven)
        for key, board in self._boards.items():
            if allowed(key, target):
                if count and not count.fits(board.at_least(count.shard, count.slot_type)):
                    continue
                if count and uneven and len(demands) == 1:  # counting is exact, and no parts are asked for
                    yield key
                    continue
                view = View.of(board, target)
                parts = fit(demands, view, uneven=uneven)
                if parts is not None and (uneven or not _scattered(demands, parts, view)):
                    yield key


def _scattered(demands: Demands, parts: Sequence[Part], view: View) -> bool:
    """Whether an uneven split would need far fewer nodes: 7 slots on nodes of 6."""
    if len(demands) != 1 or demands[0].slots is None or not demands[0].uneven:
        return False
    fewest = split_unevenly(demands[0], view)
    return fewest is not None and len(parts) > SCATTERED * len(fewest)


def allowed(pool: PoolKey, target: Target) -> bool:
    """Whether a target allows a pool. A run is in one pool of one cluster."""
    return admits(pool[0], target.cluster) and target.pool in (None, pool[1])


def largest(demands: Demands, fits: Callable[[Demands], bool]) -> str | None:
    """The biggest request like this one, less of one role alone, that `fits`; None if there is none.

    Fewer replicas (or slots in all) come before smaller replicas: they change the run least.
    """
    for way in ways_to_shrink(demands):
        found = _most(way, fits)
        if found:
            return way.words(found)
    return None


@dataclass(frozen=True, slots=True)
class Shrink:
    """A way to ask for less of one role: the present amount, the demand for an amount, and its words."""

    demands: Demands
    index: int
    amount: int
    change: Callable[[int], Demand]
    words: Callable[[int], str]

    def request(self, amount: int, *, loose: bool = False) -> Demands:
        """The request of the run with this amount; `loose`: its slots may be split unequally."""
        less = self.change(amount)
        if loose and less.slots is not None:
            less = replace(less, uneven=True)
        return (*self.demands[: self.index], less, *self.demands[self.index + 1 :])


def ways_to_shrink(demands: Demands) -> Iterator[Shrink]:
    """The ways of each role, the biggest role first, and fewer before smaller replicas."""
    for index, demand in sorted(enumerate(demands), key=lambda item: -requested_slots((item[1],))):
        yield from _ways(demands, index, demand, f" for role {demand.role!r}" if len(demands) > 1 else "")


def _ways(demands: Demands, index: int, demand: Demand, of_role: str) -> Iterator[Shrink]:
    def fewer_slots(slots: int) -> Demand:
        return replace(demand, slots=slots)

    def fewer_replicas(count: int) -> Demand:
        return replace(demand, replicas=count)

    def smaller_replicas(slots: int) -> Demand:
        return replace(demand, each=replace(demand.each, slots=slots))

    if demand.slots is not None:
        yield Shrink(demands, index, demand.slots, fewer_slots, lambda slots: f"slots: {slots}{of_role}")
        return
    most, each_slots = demand.replicas or 0, demand.each.slots
    yield Shrink(demands, index, most, fewer_replicas, lambda n: f"{n} of the {most} replicas{of_role}")

    def in_words(slots: int) -> str:
        return f"replicas of {slots} slot{'s' if slots > 1 else ''} each{of_role}"

    yield Shrink(demands, index, each_slots, smaller_replicas, in_words)


def _most(way: Shrink, fits: Callable[[Demands], bool]) -> int:
    """The biggest amount below the requested one that fits; 0 if even 1 does not.

    Equal splits rule out bisection: 12 slots may fit, 13 not, and 16 again. So bisection finds the bound for
    an unequal split, and the first few amounts below it are tried one by one.
    """

    def room(amount: int, *, loose: bool) -> bool:
        return fits(way.request(amount, loose=loose))

    amounts = range(1, max(way.amount, 1))
    bound = bisect_left(amounts, True, key=lambda amount: not room(amount, loose=True))
    for amount in range(bound, max(bound - TRIED, 0), -1):
        if room(amount, loose=False):
            return amount
    return bisect_left(amounts, True, key=lambda amount: not room(amount, loose=False))
