"""The order of mode queues, class queues and holdings under a fair share, by the usage of their entities.

Kept by `PoolState`, and read by a cycle as far as needed. Only changed entities are ranked again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from tarmac.model.cluster import Policy, Pool
from tarmac.sched.index.groups import Group, Groups
from tarmac.sched.index.queues import ClassQueue, EntityQueues, Entries, ModeQueue, PoolQueue, Queued
from tarmac.sched.policies.fairness import Accounts, PastUsage, epoch_of
from tarmac.sched.policies.order import Key
from tarmac.sched.policies.ranking import Changes, Place, Placed, Ranking


class _Listed(Protocol):
    """A mode queue or a class queue."""

    entries: Entries


class FairOrder:
    """The orders of one pool; empty without a fair share policy."""

    __slots__ = ("_accounts", "_changes", "_epoch", "_mode_queues", "_queue", "_ranked_era", "_rules")

    def __init__(self, rules: Pool, queue: PoolQueue, accounts: Accounts, changes: Changes) -> None:
        self._rules = rules
        self._queue = queue
        self._accounts = accounts
        self._changes = changes
        self._epoch = 0
        self._mode_queues = Ranking()
        self._ranked_era = -1

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
        if self._ranked_era != self._changes.era:
            self._ranked_era = self._changes.era
            for requests in self._queue.requests.values():
                for request in requests:
                    for entity_queues in request.fair.values():
                        self._rank_class_queues(entity_queues)

    def past_usage(self, now: float) -> PastUsage | None:
        """The past usage for a cycle under fair share; None otherwise."""
        return self._accounts.past_usage(now, self._first)

    def mode_queues(self, past_usage: PastUsage) -> Iterator[tuple[float, Key, ModeQueue]]:
        """The mode queues, the least usage first, each with its usage and the key of its first run."""
        self._rank_mode_queues()
        ordered = self._mode_queues.ordered(_claimed(past_usage))
        return ((usage, key, self._queue.fair[entity]) for usage, (_, key, entity) in ordered)

    def class_queues(
        self, entity_queues: EntityQueues, past_usage: PastUsage
    ) -> Iterator[tuple[float, Key, ClassQueue]]:
        """These class queues, the least usage first."""
        self._rank_class_queues(entity_queues)
        ordered = entity_queues.ranking.ordered(_claimed(past_usage))
        return ((usage, key, entity_queues.class_queues[entity]) for usage, (_, key, entity) in ordered)

    def holdings(self, groups: Groups, past_usage: PastUsage) -> Iterator[tuple[float, Group]]:
        """Groups of holdings with their usage, the highest first."""
        self._rank_groups(groups)
        ordered = groups.ranking.ordered(lambda place: -past_usage.of_holding(place[1], place[2]))
        return ((-below, (entity, slots)) for below, (_, entity, slots) in ordered)

    def alike(self, groups: Groups) -> list[list[Place]]:
        """The classes of groups, each by descending usage, not merged."""
        self._rank_groups(groups)
        return list(groups.ranking.classes)

    def _rank_mode_queues(self) -> None:
        fair = self._queue.fair
        self._mode_queues.refresh(fair, self._changes, self._places_in(fair))

    def _rank_class_queues(self, entity_queues: EntityQueues) -> None:
        self._rank_mode_queues()
        entity_queues.ranking.refresh(
            entity_queues.class_queues, self._changes, self._places_in(entity_queues.class_queues)
        )

    def _rank_groups(self, groups: Groups) -> None:
        groups.ranking.refresh(groups.entities, self._changes, lambda entity: self._places_of(groups, entity))

    def _places_in(self, lists: Mapping[str, _Listed]) -> Callable[[str], Sequence[Placed]]:
        """The place of an entity in mode queues or class queues. All of them share one score."""

        def places(entity: str) -> Sequence[Placed]:
            listed = lists.get(entity)
            if listed is None or not listed.entries:
                return ()
            known = self._mode_queues.placed(entity)
            if known and lists is not self._queue.fair:
                stays, (fades, *_) = known[0]
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
        first, share = self._first(entity), self._rules.shares.get(entity, 1.0)
        waiting = 0 if first is None else first.request.slots
        return [((stays, max(slots, waiting), share), (-fades, entity, slots)) for slots in widths]

    def _first(self, entity: str) -> Queued | None:
        """The first queued run of an entity."""
        mode_queue = self._queue.fair.get(entity)
        return None if mode_queue is None else mode_queue.first


def _claimed(past_usage: PastUsage) -> Callable[[Place], float]:
    return lambda place: past_usage.of(place[2])
