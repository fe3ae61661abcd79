"""The index of one pool: its board, its queue, its holders and their ends.

`Ledger` updates it as facts change; a cycle (`queue_walk`) changes it temporarily and restores it.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count, tee
from math import inf
from typing import Any

from tarmac.model.cluster import Node, Packing, Policy, Pool
from tarmac.model.reservations import NodeReservation
from tarmac.sched.facts import Candidate
from tarmac.sched.index import queues
from tarmac.sched.index.forecast import Forecast, Holder, ReleaseKey
from tarmac.sched.index.holders import Group, Groups, Holders
from tarmac.sched.index.zones import Zones
from tarmac.sched.placing.board import PoolBoard, PoolKey
from tarmac.sched.placing.space import Space
from tarmac.sched.placing.view import View
from tarmac.sched.policies.fairness import Accounts, PastUsage, epoch_of, width_of
from tarmac.sched.policies.order import Key
from tarmac.sched.policies.ranking import Changes, Place, Placed, Ranking

_Latest = tuple[PastUsage | None, Iterator[tuple[float, Key, queues.ModeQueue]]]
"""The usage of the last cycle that read the mode queues, and these in its order."""


class _FairOrder:
    """The order of mode queues, class queues and holdings of one pool by the usage of their entities.

    It is empty without a fair share policy. A cycle reads it as far as needed; only changed entities are
    ranked again.
    """

    __slots__ = ("_accounts", "_changes", "_epoch", "_latest", "_mode_queues", "_queue", "_ranked", "_rules")

    def __init__(self, rules: Pool, queue: queues.PoolQueue, accounts: Accounts, changes: Changes) -> None:
        self._rules = rules
        self._queue = queue
        self._accounts = accounts
        self._changes = changes
        self._epoch = 0
        self._mode_queues = Ranking()
        self._ranked = -1
        self._latest: _Latest = (None, iter(()))

    def set_rules(self, rules: Pool) -> None:
        """Order everything again, by other rules."""
        self._rules = rules
        self._changes.restart()

    def refresh(self, now: float) -> None:
        """Rank everything again if due: otherwise the first cycle that reads it would pay for it."""
        if self._rules.policy is not Policy.FAIR_SHARE:
            return
        if (epoch := epoch_of(self._rules, now)) != self._epoch:
            self._epoch = epoch
            self._changes.restart()
        if self._ranked != self._changes.era:
            self._ranked = self._changes.era
            for requests in self._queue.requests.values():
                for request in requests:
                    for entity_queues in request.fair.values():
                        self._rank_class_queues(entity_queues)

    def past_usage(self, now: float) -> PastUsage | None:
        """The past usage for a cycle under fair share; None otherwise."""
        if self._rules.policy is not Policy.FAIR_SHARE:
            return None
        return PastUsage(self._accounts, self._rules, now, self._first)

    def mode_queues(self, past_usage: PastUsage) -> Iterator[tuple[float, Key, queues.ModeQueue]]:
        """The mode queues, the least usage before the cycle first, with it and the key of the first run."""
        known, ordered = self._latest
        if known is not past_usage:
            self._rank_mode_queues()
            ranked = self._mode_queues.ordered(_claimed(past_usage), past_usage.least)
            ordered = ((usage, key, self._queue.fair[entity]) for usage, (_, key, entity) in ranked)
        ordered, again = tee(ordered)
        self._latest = past_usage, again
        return ordered

    def class_queues(
        self, entity_queues: queues.EntityQueues, past_usage: PastUsage
    ) -> Iterator[tuple[float, Key, queues.ClassQueue]]:
        """These class queues, the least usage before the cycle first."""
        self._rank_class_queues(entity_queues)
        ordered = entity_queues.ranking.ordered(_claimed(past_usage), past_usage.least)
        return ((usage, key, entity_queues.class_queues[entity]) for usage, (_, key, entity) in ordered)

    def holdings(self, groups: Groups, past_usage: PastUsage) -> Iterator[tuple[float, Group]]:
        """Groups of holdings with their usage, the highest first."""
        self._rank_groups(groups)
        ordered = groups.ranking.ordered(
            lambda place: -past_usage.of_holding(place[1], place[2]), past_usage.least_below
        )
        return ((-below, (entity, slots)) for below, (_, entity, slots) in ordered)

    def alike(self, groups: Groups) -> Iterable[tuple[Any, list[Place]]]:
        """The classes of groups by their scores, each by descending usage, not merged."""
        self._rank_groups(groups)
        return groups.ranking.classes.items()

    def _rank_mode_queues(self) -> None:
        fair = self._queue.fair
        self._mode_queues.refresh(fair, self._changes, self._places_in(fair))

    def _rank_class_queues(self, entity_queues: queues.EntityQueues) -> None:
        self._rank_mode_queues()
        entity_queues.ranking.refresh(
            entity_queues.class_queues, self._changes, self._places_in(entity_queues.class_queues)
        )

    def _rank_groups(self, groups: Groups) -> None:
        groups.ranking.refresh(groups.entities, self._changes, lambda entity: self._places_of(groups, entity))

    def _places_in(
        self, lists: Mapping[str, queues.ModeQueue | queues.ClassQueue]
    ) -> Callable[[str], Sequence[Placed]]:
        """The place of an entity in mode queues or class queues. All of them share one score."""
        ranked = {} if lists is self._queue.fair else self._mode_queues.placed

        def places(entity: str) -> Sequence[Placed]:
            listed = lists.get(entity)
            if listed is None or not listed.entries:
                return ()
            if entity in ranked:
                ((stays, (fades, _, _)),) = ranked[entity]
            else:
                stays, fades = self._accounts.score(entity, self._first(entity), self._epoch)
            return ((stays, (fades, listed.entries[0][0], entity)),)

        return places

    def _places_of(self, groups: Groups, entity: str) -> Sequence[Placed]:
        """The places of an entity's groups: the usage of a class grows alike, and counts as equally wide."""
        widths = groups.of(entity)
        if not widths:
            return ()
        stays, fades = self._accounts.score(entity, None, self._epoch)
        waiting, share = width_of(self._first(entity)), self._rules.shares.get(entity, 1.0)
        return [((stays, max(slots, waiting), share), (-fades, entity, slots)) for slots in widths]

    def _first(self, entity: str) -> Candidate | None:
        """The first queued run of an entity."""
        mode_queue = self._queue.fair.get(entity)
        return None if mode_queue is None else mode_queue.first.candidate


def _claimed(past_usage: PastUsage) -> Callable[[Place], float]:
    return lambda place: past_usage.before(place[2])


class Memo:
    """`blocked` request classes do not fit the free slots, and will not until some are released.

    With the present reservations, runs of the request classes in `windows` start only if they end by then.
    `forecasts` are valid until holdings change. `guarded` has the last searches beyond guaranteed times, by
    what they depended on, until nodes change.
    """

    __slots__ = ("_reservations", "blocked", "forecasts", "guarded", "windows")

    def __init__(self) -> None:
        self.blocked: set[queues.RequestClass] = set()
        self.windows: dict[queues.RequestClass, float] = {}
        self.forecasts: dict[Hashable, Forecast | None] = {}
        self.guarded: list[tuple[Any, list[Holder], tuple[list[Holder], tuple[str, ...]] | None]] = []
        self._reservations: tuple[Hashable, ...] | None = ()

    def change(self, *, freed: bool = False) -> None:
        """Forget what changed holdings or nodes invalidate; `freed` if slots may have become free."""
        self.forecasts.clear()
        if freed:
            self.free()

    def free(self) -> None:
        """Forget what newly free slots invalidate."""
        self.blocked.clear()
        self.windows.clear()

    def reserve(self, reservations: tuple[Hashable, ...] | None) -> None:
        """Set the reservations (None: those of the rest of this cycle)."""
        if reservations is None or reservations != self._reservations:
            self._reservations = reservations
            self.windows.clear()


class PoolState:
    """One pool. `memo` has results of earlier cycles that are still valid."""

    __slots__ = (
        "_empty",
        "_parking_is_current",
        "accounts",
        "board",
        "fair",
        "holders",
        "holdings",
        "key",
        "leaving",
        "memo",
        "queue",
        "releases",
        "rules",
        "zones",
    )

    def __init__(self, rules: Pool, board: PoolBoard) -> None:
        self.key: PoolKey = rules.key
        self.rules = rules
        self.board = board
        board.spread = rules.packing is Packing.SPREAD
        self.zones = Zones(rules, (space.node for space in board.spaces.values()))
        changes = Changes()
        self.queue = queues.PoolQueue(rules, changes)
        self.holders = Holders(rules, changes.note)
        self.accounts = Accounts(rules, changes.note)
        self.fair = _FairOrder(rules, self.queue, self.accounts, changes)
        self.holdings: dict[str, Holder] = {}
        self.leaving: set[str] = set()
        self.releases: list[tuple[ReleaseKey, Holder]] = []
        self.memo = Memo()
        self._empty: PoolBoard | None = None
        self._parking_is_current = False

    def add_holders(self, holders: Iterable[Holder]) -> None:
        """Add many holdings, sorting once."""
        for item in holders:
            self.releases.append((item.ends, item))
            self._take_up(item)
        self.releases.sort()
        self.memo.change()

    def add_holder(self, holder: Holder) -> None:
        """Add or replace a holding on nodes of this pool."""
        insort(self.releases, (holder.ends, holder))
        self._take_up(holder)
        self.memo.change()

    def drop_holder(self, holder: Holder) -> None:
        """Remove a holding."""
        del self.holdings[holder.ends[2]]
        del self.releases[bisect_left(self.releases, (holder.ends,))]
        self.leaving.discard(holder.ends[2])
        self.holders.drop(holder)
        self.accounts.end(holder.holding)
        self.memo.change()

    def known_releases(self) -> int:
        """The number of holdings with a known end: they are the first in `releases`."""
        return bisect_left(self.releases, ((inf,),))

    def enqueue(self, candidate: Candidate, request: queues.RequestClass) -> None:
        """Add a run to the queue."""
        if not request.class_queues:
            request.parked = not self.possible(request)
        self.queue.add(candidate, request)

    def refresh(self, now: float) -> None:
        """Update the queue for a cycle: its order, and the request classes parked while nodes are closed."""
        if self.zones.advance(now):
            self._nodes_changed()
        self.queue.refresh(now)
        self.fair.refresh(now)
        if not self._parking_is_current:
            self._parking_is_current = True
            requests = (request for together in self.queue.requests.values() for request in together)
            self.queue.park(
                [request for request in requests if not self.possible(request)] if self._closes else ()
            )

    def possible(self, request: queues.RequestClass) -> bool:
        """Whether the nodes that take work would fit a request class if all were empty."""
        if not self._closes:
            return True
        if self._empty is None:
            self._empty = PoolBoard(
                self.key, map(Space.empty, (space.node for space in self.board.spaces.values()), count())
            )
        self._empty.spread = self.board.spread
        empty = self.zones.part(self._empty, request)
        if request.count is not None:
            return request.count.fits(empty.at_least(request.count.shard, request.count.slot_type))
        return request.fit(View.of(empty, request.target)) is not None

    def barriers(self, standing: queues.Standing, ended_at: float) -> Iterator[tuple[str, NodeReservation]]:
        """The nodes that a run that ends then may not use, each with the reservation that keeps it out."""
        for name, space in self.board.spaces.items() if self.zones.reserved else ():
            barrier = self.zones.barrier(standing, space.node.reservations, ended_at)
            if barrier is not None:
                yield name, barrier

    def barred(self) -> Iterator[tuple[str, Holder]]:
        """The holders on nodes where a reservation has begun for which the scheduler preempts them."""
        spaces = self.board.spaces
        for run_id, holder in self.holdings.items() if self.zones.reserved else ():
            zones = [spaces[name].node.reservations for name in spaces.keys() & holder.loads]
            if not holder.holding.leaving and self.zones.preempt(holder.holding.candidate, zones):
                yield run_id, holder

    def restate(self, node: Node) -> None:
        """Change the state of a node."""
        self.board.restate(self.board.spaces[node.name], node)
        if self._empty is not None:
            self._empty.restate(self._empty.spaces[node.name], node)
        self._nodes_changed()

    def set_rules(self, rules: Pool) -> None:
        """Change the rules of the pool, which orders its queue again."""
        if rules != self.rules:
            self.rules = rules
            self.zones.rules = rules
            self.board.spread = rules.packing is Packing.SPREAD
            self.queue.add_all(self.queue.restart(rules))
            self.holders.restart(rules, self.holdings.values())
            self.accounts.restart(rules, [holder.holding for holder in self.holdings.values()])
            self.fair.set_rules(rules)
            self._nodes_changed()

    @property
    def _closes(self) -> bool:
        """Whether some nodes take no work, or not that of every run."""
        return bool(self.board.closed) or self.zones.reserved

    def _nodes_changed(self) -> None:
        self._parking_is_current = False
        self.memo.guarded.clear()
        self.memo.change(freed=True)

    def _take_up(self, holder: Holder) -> None:
        self.holdings[holder.ends[2]] = holder
        if holder.holding.leaving:
            self.leaving.add(holder.ends[2])
        self.holders.add(holder)
        self.accounts.begin(holder.holding)
