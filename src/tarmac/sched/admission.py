"""Admission: whether a request fits the empty cluster at all, and if not, the biggest that would.

Asked by `planning` the first time a request does not fit as things are, and by `explain`. The empty
cluster has every node in it, drained and down ones too: they can come back. A cluster that has not
reported a node yet is given the benefit of the doubt.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tarmac.model.cluster import admits
from tarmac.model.spec import Target
from tarmac.sched.board import Board, PoolBoard
from tarmac.sched.facts import Demand, Snapshot
from tarmac.sched.gangs import fit
from tarmac.sched.view import View

Demands = tuple[Demand, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request can ever start. `uneven`: only if a role's slots are split unevenly."""

    fits: bool
    uneven: bool = False


class Admission:
    """Judges requests against the empty cluster of one snapshot, which it builds on first use."""

    __slots__ = ("_board", "_snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._board: Board | None = None

    def judge(self, demands: Demands, target: Target) -> Verdict:
        """Whether this request fits the empty cluster, evenly split if that is possible."""
        for uneven in (False, True):
            if self._fits(demands, target, uneven=uneven):
                return Verdict(fits=True, uneven=uneven)
        return Verdict(fits=self.silent(target))

    def silent(self, target: Target) -> bool:
        """Whether a cluster the target allows has not reported any node yet."""
        reporting = {node.cluster for node in self._snapshot.nodes}
        known = {pool.cluster for pool in self._snapshot.pools}
        return not reporting or any(admits(cluster, target.cluster) for cluster in known - reporting)

    def largest(self, demands: Demands, target: Target) -> str | None:
        """The biggest smaller request that the empty cluster could hold, in words."""
        return largest(demands, lambda less: self._fits(less, target, uneven=True))

    def _fits(self, demands: Demands, target: Target, *, uneven: bool) -> bool:
        if self._board is None:
            self._board = Board(self._snapshot.nodes, any_state=True)
        return any(
            fit(demands, View.of(pool, target, use_kept=True), uneven=uneven) is not None
            for pool in pools_for(self._board, target)
        )


def pools_for(board: Board, target: Target) -> Iterator[PoolBoard]:
    """The pools a target allows, in order. A run lies in one pool of one cluster."""
    for (cluster, pool), found in board.pools.items():
        if admits(cluster, target.cluster) and target.pool in (None, pool):
            yield found


def largest(demands: Demands, fits: Callable[[Demands], bool]) -> str | None:
    """The biggest request like this one, less of one role alone, that `fits`; None if there is none.

    Fewer replicas (or slots in all) come before smaller replicas: they change the run least.
    """
    for index, demand in sorted(enumerate(demands), key=lambda item: -_slots(item[1])):
        for smaller, words in _smaller(demand):
            found = _most(demands, index, smaller, fits)
            if found:
                of_role = f" for role {demand.role!r}" if len(demands) > 1 else ""
                return words(found) + of_role
    return None


def _slots(demand: Demand) -> int:
    return demand.slots or (demand.replicas or 0) * demand.each.slots


Shrink = Callable[[int], Demand]


def _smaller(demand: Demand) -> list[tuple[tuple[int, Shrink], Callable[[int], str]]]:
    """Ways to ask for less: how much is asked now, the demand for an amount, and the words for it."""
    if demand.slots is not None:
        return [((demand.slots, lambda slots: replace(demand, slots=slots)), lambda slots: f"slots: {slots}")]
    replicas, each = demand.replicas or 0, demand.each
    return [
        (
            (replicas, lambda count: replace(demand, replicas=count)),
            lambda count: f"{count} of the {replicas} replicas",
        ),
        (
            (each.slots, lambda slots: replace(demand, each=replace(each, slots=slots))),
            lambda slots: f"replicas of {slots} slot{'s' if slots > 1 else ''} each",
        ),
    ]


def _most(
    demands: Sequence[Demand], index: int, smaller: tuple[int, Shrink], fits: Callable[[Demands], bool]
) -> int:
    """The biggest amount below what is asked that fits, by bisection; 0 if even 1 does not."""
    asked, shrink = smaller

    def too_much(amount: int) -> bool:
        return not fits((*demands[:index], shrink(amount), *demands[index + 1 :]))

    return bisect_left(range(1, max(asked, 1)), True, key=too_much)
