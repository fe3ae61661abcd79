"""The holders of a pool's slots, in order of preemption. Kept by `PoolState`.

A batch run can be preempted once its guaranteed time is over: until then it is *guarded*, then it is *ready*
at its place under the policy. Under `least_attained`, runs climb while they hold slots. `advance` applies the
effects of passing time at the beginning of a cycle.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from math import inf
from typing import Any

from tarmac.model.cluster import Policy, Pool
from tarmac.sched.index.forecast import Holder
from tarmac.sched.policies.fairness import entity_of
from tarmac.sched.policies.order import CYCLE, INTERRUPTIBLE, RANKS, Key
from tarmac.sched.policies.precedence import climbs_next_at, holder_key
from tarmac.sched.policies.ranking import Ranking

Timed = list[tuple[float, str, Holder, Key]]
"""Sorted by the time at which a holding changes; the key is the one it has from then on.

Under fair share, the last of a guarded holding is its group.
"""


Group = tuple[str, int]
"""An entity, and the number of slots of a holding."""


class Groups:
    """Holdings by the entity they count for and their number of slots; each group is sorted.

    `ranking` orders the groups by their usage. The groups call `changed` with an entity when one of its
    groups comes or goes.
    """

    __slots__ = ("_by_entity", "_changed", "ranking")

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._by_entity: dict[str, dict[int, list[Any]]] = {}
        self.ranking = Ranking()

    @property
    def entities(self) -> Collection[str]:
        """The entities that have holdings."""
        return self._by_entity

    def of(self, entity: str) -> Iterable[int]:
        """The widths of an entity's groups."""
        return self._by_entity.get(entity, {})

    def __getitem__(self, group: Group) -> list[Any]:
        """The entries of a group."""
        return self._by_entity[group[0]][group[1]]

    def add(self, group: Group, entry: tuple[Any, ...]) -> None:
        """Sort an entry into its group."""
        entity, slots = group
        widths = self._by_entity.setdefault(entity, {})
        if slots not in widths:
            widths[slots] = []
            self._changed(entity)
        insort(widths[slots], entry)

    def cut(self, group: Group, key: tuple[Any, ...]) -> None:
        """Remove the entry with this key from its group."""
        entity, slots = group
        widths = self._by_entity[entity]
        del widths[slots][bisect_left(widths[slots], key)]
        if not widths[slots]:
            del widths[slots]
            self._changed(entity)
        if not widths:
            del self._by_entity[entity]


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a batch run: guarded until then, or (None) ready under this key until it climbs.

    The key of a guarded run is the one it will have when ready.
    """

    guarded_until: float | None
    key: Key
    climbs_at: float = inf


class Holders:
    """The holdings of one pool that are not leaving.

    Under fair share their batch runs are also in groups, if the end of their guaranteed time is known.
    """

    __slots__ = (
        "_changed",
        "_climbs",
        "_now",
        "_places",
        "_rules",
        "cycle",
        "guarded",
        "guarded_groups",
        "interruptible",
        "ready",
        "ready_groups",
    )

    def __init__(self, rules: Pool, changed: Callable[[str], None] = lambda _: None) -> None:
        """`changed` is called with an entity when one of its fair share groups comes or goes."""
        self._changed = changed
        self._now = -inf
        self._begin(rules)

    def add(self, holder: Holder) -> None:
        """Add a run that holds slots of this pool."""
        candidate = holder.holding.candidate
        rank = RANKS[candidate.mode]
        if holder.holding.leaving:
            return
        if rank == CYCLE:
            self.cycle[candidate.run_id] = holder
        elif rank == INTERRUPTIBLE:
            self.interruptible[candidate.run_id] = holder
        elif self._rules.preemption:
            self._guard(holder)

    def drop(self, holder: Holder) -> None:
        """Remove a run."""
        run_id = holder.holding.candidate.run_id
        self.cycle.pop(run_id, None)
        self.interruptible.pop(run_id, None)
        place = self._places.get(run_id)
        if place is not None and place.guarded_until is not None:
            _cut(self.guarded, (place.guarded_until, run_id))
            self._unguard(holder, place.guarded_until)
        elif place is not None:
            self._unready(holder, place)

    def restart(self, rules: Pool, holders: Iterable[Holder]) -> None:
        """Order all holdings again, by other rules."""
        self._begin(rules)
        for holder in holders:
            self.add(holder)

    def advance(self, now: float) -> None:
        """Apply the changes that time has brought."""
        back, self._now = now < self._now, now
        if back:  # a caller asks about the past
            for _, holder in list(self.ready):
                self._unready(holder, self._places[holder.ends[2]])
                self._guard(holder)
        over = bisect_right(self.guarded, now, key=lambda entry: entry[0])
        ended = self.guarded[:over]
        del self.guarded[:over]
        for until, _, holder, _ in ended:
            self._unguard(holder, until)
            self._make_ready(holder)
        for climbs in list(self._climbs.values()):
            while climbs and climbs[0][0] <= now:
                holder = climbs[0][2]
                self._unready(holder, self._places[climbs[0][1]])
                self._make_ready(holder)

    def last_first(self) -> Iterator[tuple[Key, Holder]]:
        """Ready batch runs with their keys, the last in order first (not under fair share)."""
        mode_queue = self.ready
        index = len(mode_queue) - 1
        while index >= 0:
            known, holder = mode_queue[index]
            if holder.holding.candidate.time_limit_s is not None and self._key(holder) != known:
                self._unready(holder, self._places[holder.ends[2]])  # the rest of its time limit has shrunk
                self._make_ready(holder)
            else:
                yield known, holder
                index -= 1

    def rising(self, level: float) -> list[Timed]:
        """Ready runs that climb from this level, and from the one below it."""
        below = max((known for known in self._climbs if known < level), default=level)
        return [self._climbs[known] for known in sorted({below, level}) if known in self._climbs]

    def group(self, holder: Holder) -> Group:
        """The group that a holder counts for."""
        return entity_of(holder.holding.candidate, self._rules), holder.slots

    def _begin(self, rules: Pool) -> None:
        self._rules = rules
        self.cycle: dict[str, Holder] = {}
        self.interruptible: dict[str, Holder] = {}
        self.guarded: Timed = []
        self.guarded_groups = Groups(self._changed)
        self.ready: list[tuple[Key, Holder]] = []
        self.ready_groups = Groups(self._changed)
        self._climbs: dict[float, Timed] = {}
        self._places: dict[str, _Place] = {}

    def _guard(self, holder: Holder) -> None:
        started_at = holder.holding.started_at
        until = inf if started_at is None else started_at + self._rules.guaranteed_s
        run_id = holder.holding.candidate.run_id
        key = holder_key(holder.holding, self._rules, until if until < inf else self._now, slots=holder.slots)
        self._places[run_id] = _Place(until, key)
        place = self.group(holder) if self._fair else key
        insort(self.guarded, (until, run_id, holder, place))
        if self._fair and until < inf:
            self.guarded_groups.add(self.group(holder), (until, run_id, holder))

    def _unguard(self, holder: Holder, until: float) -> None:
        run_id = holder.holding.candidate.run_id
        del self._places[run_id]
        if self._fair and until < inf:
            self.guarded_groups.cut(self.group(holder), (until, run_id))

    def _make_ready(self, holder: Holder) -> None:
        candidate = holder.holding.candidate
        key = self._key(holder)
        climbs_at = climbs_next_at(holder.holding, holder.slots, self._rules, self._now)
        self._places[candidate.run_id] = _Place(None, key, climbs_at)
        insort(self.ready, (key, holder))
        if self._fair:
            self.ready_groups.add(self.group(holder), (key, holder))
        if climbs_at < inf:
            climbed = holder_key(holder.holding, self._rules, climbs_at, slots=holder.slots)
            insort(self._climbs.setdefault(level_of(key), []), (climbs_at, candidate.run_id, holder, climbed))

    def _unready(self, holder: Holder, place: _Place) -> None:
        run_id = holder.holding.candidate.run_id
        del self._places[run_id]
        _cut(self.ready, (place.key,))
        if self._fair:
            self.ready_groups.cut(self.group(holder), (place.key,))
        if place.climbs_at < inf:
            _cut(self._climbs[level_of(place.key)], (place.climbs_at, run_id))

    @property
    def _fair(self) -> bool:
        return self._rules.policy is Policy.FAIR_SHARE

    def _key(self, holder: Holder) -> Key:
        return holder_key(holder.holding, self._rules, self._now, slots=holder.slots)


def level_of(key: Key) -> float:
    """The level in a key of the policy `least_attained`."""
    return float(key[0])


def _cut(entries: list[Any], key: tuple[Any, ...]) -> None:
    del entries[bisect_left(entries, key)]
