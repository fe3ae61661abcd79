"""Whose turn it is under a fair share: lines, lanes and holdings by what is held against their entities.

Kept by `PoolState`, read by a pass as far as it looks. Only of whom something changed are placed anew.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from tarmac.model.cluster import Policy, Pool
from tarmac.sched.index.groups import Group, Groups
from tarmac.sched.index.queues import ClassQueue, Entries, ModeQueue, PoolQueue, Track
from tarmac.sched.policies.fairness import Accounts, PastUsage, epoch_of
from tarmac.sched.policies.order import Key
from tarmac.sched.policies.ranking import Changes, Place, Placed, Ranking


class _Listed(Protocol):
    """A line or a lane."""

    entries: Entries


class FairOrder:
    """The orders of one pool; empty where shares are not fair."""

    __slots__ = ("_accounts", "_changes", "_epoch", "_lines", "_queue", "_ranked_era", "_rules")

    def __init__(self, rules: Pool, queue: PoolQueue, accounts: Accounts, changes: Changes) -> None:
        self._rules = rules
        self._queue = queue
        self._accounts = accounts
        self._changes = changes
        self._epoch = 0
        self._lines = Ranking()
        self._ranked_era = -1

    def set_rules(self, rules: Pool) -> None:
        """Everything is ordered anew, by other rules."""
        self._rules = rules
        self._changes.restart()

    def refresh(self, now: float) -> None:
        """Rank all anew where that is due: otherwise the pass that looks first would pay for it."""
        if self._rules.policy is not Policy.FAIR_SHARE:
            return
        if (epoch := epoch_of(self._rules, now)) != self._epoch:
            self._epoch = epoch
            self._changes.restart()
        if self._ranked_era != self._changes.era:
            self._ranked_era = self._changes.era
            for kinds in self._queue.kinds.values():
                for kind in kinds:
                    for track in kind.tracks.values():
                        self._rank_lanes(track)

    def past_usage(self, now: float) -> PastUsage | None:
        """What a pass goes by where shares are fair; None elsewhere."""
        return self._accounts.past_usage(now, self._width)

    def lines(self, past_usage: PastUsage) -> Iterator[tuple[float, Key, ModeQueue]]:
        """The lines, the least claim first, each with it and the key of its first run."""
        self._rank_lines()
        ordered = self._lines.ordered(_claimed(past_usage))
        return ((usage, key, self._queue.fair[entity]) for usage, (_, key, entity) in ordered)

    def lanes(self, track: Track, past_usage: PastUsage) -> Iterator[tuple[float, Key, ClassQueue]]:
        """The lanes of a track in that order."""
        self._rank_lanes(track)
        ordered = track.ranking.ordered(_claimed(past_usage))
        return ((usage, key, track.lanes[entity]) for usage, (_, key, entity) in ordered)

    def holdings(self, groups: Groups, past_usage: PastUsage) -> Iterator[tuple[float, Group]]:
        """Groups of holdings, each with what is held against it: the most first."""
        self._rank_groups(groups)
        ordered = groups.ranking.ordered(lambda place: -past_usage.standing(place[1], place[2]))
        return ((-below, (entity, slots)) for below, (_, entity, slots) in ordered)

    def alike(self, groups: Groups) -> list[list[Place]]:
        """The same, unmerged: classes of groups, in each ever less is held against them."""
        self._rank_groups(groups)
        return list(groups.ranking.classes)

    def _rank_lines(self) -> None:
        fair = self._queue.fair
        self._lines.refresh(fair, self._changes, self._places_in(fair))

    def _rank_lanes(self, track: Track) -> None:
        self._rank_lines()
        track.ranking.refresh(track.lanes, self._changes, self._places_in(track.lanes))

    def _rank_groups(self, groups: Groups) -> None:
        groups.ranking.refresh(groups.entities, self._changes, lambda entity: self._places_of(groups, entity))

    def _places_in(self, lists: Mapping[str, _Listed]) -> Callable[[str], Sequence[Placed]]:
        """Where the line or lane of an entity lies; its score is worked out once for all of them."""

        def places(entity: str) -> Sequence[Placed]:
            listed = lists.get(entity)
            if listed is None or not listed.entries:
                return ()
            known = self._lines.placed(entity)
            if known and lists is not self._queue.fair:
                stays, (fades, *_) = known[0]
            else:
                stays, fades = self._accounts.score(entity, self._width(entity), self._epoch)
            return ((stays, (fades, listed.entries[0][0], entity)),)

        return places

    def _places_of(self, groups: Groups, entity: str) -> Sequence[Placed]:
        """Where the groups of an entity lie: in a class all grow alike, and count as equally wide."""
        widths = groups.of(entity)
        if not widths:
            return ()
        stays, fades = self._accounts.score(entity, 0, self._epoch)
        waiting, share = self._width(entity), self._rules.shares.get(entity, 1.0)
        return [((stays, max(slots, waiting), share), (-fades, entity, slots)) for slots in widths]

    def _width(self, entity: str) -> int:
        """How many slots the first queued run of an entity asks for."""
        line = self._queue.fair.get(entity)
        return 0 if line is None else line.first.kind.slots


def _claimed(past_usage: PastUsage) -> Callable[[Place], float]:
    return lambda place: past_usage.of(place[2])
