"""The zones of a pool: nodes with equal reservations. Used by `pool_state`, and through it by a cycle.

A reservation keeps out a run that it does not admit: once it has begun, always; before, a run that need not
have left by its begin. A run that its mode or pool lets the scheduler preempt only needs its guaranteed time
before.
"""

from collections.abc import Collection, Iterable
from math import inf

from tarmac.model.cluster import Node, PoolRules
from tarmac.model.lifecycle import Mode
from tarmac.model.reservations import NodeReservation
from tarmac.sched.facts import Candidate
from tarmac.sched.index.queues import RequestClass, Standing
from tarmac.sched.placing.board import PoolBoard
from tarmac.sched.placing.space import Zone


def standing_of(candidate: Candidate, reservations: Iterable[NodeReservation]) -> Standing:
    """How a run stands to these reservations."""
    admitting = (each.name for each in reservations if each.admits(candidate.owner, candidate.project))
    return frozenset(admitting), candidate.mode is not Mode.BATCH


class Zones:
    """The zones of a pool at the time of its cycle. `reserved`: some nodes have reservations."""

    __slots__ = ("_moments", "_zones", "now", "reserved", "rules")

    def __init__(self, rules: PoolRules, nodes: Iterable[Node]) -> None:
        self.rules = rules
        self._zones = {node.reservations for node in nodes}
        self._moments = {at for zone in self._zones for each in zone for at in (each.begin_at, each.end_at)}
        self.reserved = bool(self._moments)
        self.now = -inf

    def advance(self, now: float) -> bool:
        """Set the time; True if reservations begin or end between the time before and this one."""
        before, self.now = self.now, now
        return any((before < at) != (now < at) for at in self._moments)

    def next_at(self) -> float:
        """When the next reservation begins or ends (inf: never)."""
        return min((at for at in self._moments if at > self.now), default=inf)

    def barrier(self, standing: Standing, zone: Zone, ended_at: float = inf) -> NodeReservation | None:
        """The first reservation that keeps a run out of a zone that would have ended by then."""
        admitted_by, preemptible = standing
        least_s = self.rules.guaranteed_s if preemptible or self.rules.preemption else inf
        for each in zone:
            if self.now < each.end_at and each.name not in admitted_by:
                ended_by = min(ended_at, self.now + least_s)
                if each.begin_at <= self.now or ended_by > each.begin_at:
                    return each
        return None

    def limits(self, standing: Standing) -> set[float]:
        """The times by which runs have to leave zones that they may start in (inf: never)."""
        first = (self.barrier(standing, zone) for zone in self._zones)
        return {inf, *(each.begin_at for each in first if each is not None and each.begin_at > self.now)}

    def open_to(self, request: RequestClass, ended_at: float = -inf) -> frozenset[Zone]:
        """The zones where a run of a request class may start that would have ended by then."""
        return frozenset(zone for zone in self._zones if not self.barrier(request.standing, zone, ended_at))

    def part(self, board: PoolBoard, request: RequestClass, ended_at: float = -inf) -> PoolBoard:
        """The part of the board of the pool where such a run may start."""
        return board.within(self.open_to(request, ended_at)) if self.reserved else board

    def preempt(self, candidate: Candidate, zones: Collection[Zone]) -> bool:
        """Whether a reservation that has begun in one of these zones preempts a run."""
        standing = standing_of(candidate, (each for zone in zones for each in zone))
        begun = (self.barrier(standing, zone, -inf) for zone in zones)
        anyway = standing[1] or self.rules.preemption
        return any(each is not None and (anyway or each.preempt) for each in begun)
