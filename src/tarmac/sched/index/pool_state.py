"""The index of one pool: its board, its queue, its holders and their ends.

`Ledger` updates it as facts change; a cycle (`queue_walk`) changes it temporarily and restores it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable
from itertools import count
from math import inf
from typing import Any

from tarmac.model.cluster import Node, Packing, Pool
from tarmac.sched.facts import Candidate
from tarmac.sched.index.fair_order import FairOrder
from tarmac.sched.index.forecast import Forecast, Holder, ReleaseKey
from tarmac.sched.index.holders import Holders
from tarmac.sched.index.queues import PoolQueue, RequestClass
from tarmac.sched.placing.board import PoolBoard, PoolKey
from tarmac.sched.placing.space import Space
from tarmac.sched.placing.view import View
from tarmac.sched.policies.fairness import Accounts
from tarmac.sched.policies.ranking import Changes


class Memo:
    """`blocked` request classes do not fit the free slots, and will not until some are released.

    With the present reservations, runs of the request classes in `windows` start only if they end by then.
    `forecasts` are valid until holdings change.
    """

    __slots__ = ("_reservations", "blocked", "forecasts", "windows")

    def __init__(self) -> None:
        self.blocked: set[RequestClass] = set()
        self.windows: dict[RequestClass, float] = {}
        self.forecasts: dict[Hashable, Forecast | None] = {}
        self._reservations: tuple[Hashable, ...] = ()

    def change(self, *, freed: bool) -> None:
        """Forget what changed holdings or nodes invalidate; `freed` if slots may have become free."""
        self.forecasts.clear()
        if freed:
            self.free()

    def free(self) -> None:
        """Forget what newly free slots invalidate."""
        self.blocked.clear()
        self.windows.clear()

    def reserve(self, reservations: tuple[Hashable, ...]) -> None:
        """Set the reservations."""
        if reservations != self._reservations:
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
    )

    def __init__(self, rules: Pool, board: PoolBoard) -> None:
        self.key: PoolKey = rules.key
        self.rules = rules
        self.board = board
        board.spread = rules.packing is Packing.SPREAD
        changes = Changes()
        self.queue = PoolQueue(rules, changes)
        self.holders = Holders(rules, changes.note)
        self.accounts = Accounts(rules, changes.note)
        self.fair = FairOrder(rules, self.queue, self.accounts, changes)
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
        self.changed()

    def add_holder(self, holder: Holder) -> None:
        """Add or replace a holding on nodes of this pool."""
        insort(self.releases, (holder.ends, holder))
        self._take_up(holder)
        self.changed()

    def drop_holder(self, holder: Holder) -> None:
        """Remove a holding."""
        del self.holdings[holder.ends[2]]
        del self.releases[bisect_left(self.releases, (holder.ends,))]
        self.leaving.discard(holder.ends[2])
        self.holders.drop(holder)
        self.accounts.end(holder.holding)
        self.changed()

    def changed(self, *, freed: bool = False) -> None:
        """Note that holdings or nodes have changed; `freed` if slots may have become free."""
        self.memo.change(freed=freed)

    def known_releases(self) -> int:
        """The number of holdings with a known end: they are the first in `releases`."""
        return bisect_left(self.releases, ((inf,),))

    def enqueue(self, candidate: Candidate, request: RequestClass) -> None:
        """Add a run to the queue."""
        if not request.class_queues:
            request.parked = not self.possible(request)
        self.queue.add(candidate, request)

    def refresh(self, now: float) -> None:
        """Update the queue for a cycle: its order, and the request classes parked while nodes are closed."""
        self.queue.refresh(now)
        self.fair.refresh(now)
        if not self._parking_is_current:
            self._parking_is_current = True
            requests = (request for together in self.queue.requests.values() for request in together)
            self.queue.park(
                [request for request in requests if not self.possible(request)] if self.board.closed else ()
            )

    def possible(self, request: RequestClass) -> bool:
        """Whether the nodes that take work would fit a request class if all were empty."""
        if not self.board.closed:
            return True
        if self._empty is None:
            self._empty = PoolBoard(
                self.key, map(Space.empty, (space.node for space in self.board.spaces.values()), count())
            )
        self._empty.spread = self.board.spread
        if request.count is not None:
            return request.count.fits(self._empty.at_least(request.count.shard, request.count.slot_type))
        return request.fit(View.of(self._empty, request.target)) is not None

    def restate(self, node: Node) -> None:
        """Change the state of a node."""
        self.board.restate(self.board.spaces[node.name], node)
        if self._empty is not None:
            self._empty.restate(self._empty.spaces[node.name], node)
        self._parking_is_current = False
        self.changed(freed=True)

    def set_rules(self, rules: Pool) -> None:
        """Change the rules of the pool, which orders its queue again."""
        if rules != self.rules:
            self.rules = rules
            self.board.spread = rules.packing is Packing.SPREAD
            self.queue.add_all(self.queue.restart(rules))
            self._parking_is_current = False
            self.holders.restart(rules, self.holdings.values())
            self.accounts.restart(rules, [holder.holding for holder in self.holdings.values()])
            self.fair.set_rules(rules)
            self.changed(freed=True)

    def set_loads(self, name: str, loads: Any) -> None:
        """Set the loads of a node."""
        space = self.board.spaces[name]
        self.board.set_loads(space, loads)

    def _take_up(self, holder: Holder) -> None:
        self.holdings[holder.ends[2]] = holder
        if holder.holding.leaving:
            self.leaving.add(holder.ends[2])
        self.holders.add(holder)
        self.accounts.begin(holder.holding)
