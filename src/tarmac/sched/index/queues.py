"""The queue of one pool, kept sorted: lines of ordered runs, and lanes of those that ask for the same.

A *line* holds all runs of one mode (of one entity, under fair share). A *lane* is the part of a line that is
of one `RequestClass` and has time limits of one magnitude: when its first run cannot start, the others are
passed over together. Kept by `PoolState`, walked by `queue_walk`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from math import frexp, inf, ldexp

from tarmac.model.cluster import Pool
from tarmac.model.spec import Queueing, Target
from tarmac.sched.facts import Candidate
from tarmac.sched.placing.admission import Demands, Verdict
from tarmac.sched.placing.board import PoolKey
from tarmac.sched.placing.counting import Count
from tarmac.sched.policies.order import RANKS, Key, ordering
from tarmac.sched.policies.ranking import Changes, Ranking

NO_LIMIT = -10_000
"""The magnitude of no time limit."""


@dataclass(slots=True, eq=False)
class RequestClass:
    """Runs that ask for the same on the same target, and what is known of all of them.

    `slots` is what they ask in all, `slot_type` the one type they name (None: any, or several). `blocked` has
    the epoch of each pool in which it was seen not to fit what is free there. `stamp` and `window_at`: with
    the nodes then kept in its pool, runs that would last beyond `window_at` were seen not to start. `shut`:
    its home pool could not hold it even if all nodes that take work now were empty: others are drained.
    """

    demands: Demands
    target: Target
    verdict: Verdict
    slots: int
    slot_type: str | None
    weightless: bool
    count: Count | None
    lanes: dict[tuple[int, str | None, int], ClassQueue] = field(default_factory=dict)
    plain: dict[ClassQueue, None] = field(default_factory=dict)
    tracks: dict[int, Track] = field(default_factory=dict)
    blocked: dict[PoolKey, int] = field(default_factory=dict)
    stamp: int = -1
    window_at: float = -inf
    shut: bool = False

    @classmethod
    def of(cls, demands: Demands, target: Target, verdict: Verdict) -> RequestClass:
        """The kind of runs with these demands."""
        types = {demand.each.slot_type for demand in demands if not demand.empty}
        return cls(
            demands=demands,
            target=target,
            verdict=verdict,
            slots=sum(demand.slots or (demand.replicas or 0) * demand.each.slots for demand in demands),
            slot_type=types.pop() if len(types) == 1 else None,
            weightless=all(demand.empty for demand in demands),
            count=Count.of(demands, target, uneven=verdict.uneven),
        )


@dataclass(slots=True, eq=False)
class Queued:
    """A run in the queue of a pool, and where it stands there."""

    candidate: Candidate
    kind: RequestClass
    line: ModeQueue
    lane: ClassQueue
    key: Key


Entry = tuple[Key, Queued]
Entries = list[Entry]
"""Sorted by keys, which end in the run's id: two runs are never compared."""


class ModeQueue:
    """All queued runs of one mode, of one entity if there are any, in order.

    Those of kinds that are `shut` lie apart: a pass that walks the others does not meet them.
    """

    __slots__ = ("entity", "entries", "rank", "shut")

    def __init__(self, rank: int, entity: str | None) -> None:
        self.rank = rank
        self.entity = entity
        self.entries: Entries = []
        self.shut: Entries = []

    @property
    def first(self) -> Queued:
        """The first in order of those that a pass meets; of the others if there are none."""
        return (self.entries or self.shut)[0][1]

    def side(self, kind: RequestClass) -> Entries:
        """Where the runs of a kind lie."""
        return self.shut if kind.shut else self.entries

    def __len__(self) -> int:
        return len(self.entries) + len(self.shut)

    def every(self) -> Iterable[Entry]:
        """All of them, in order."""
        return merge(self.entries, self.shut) if self.shut else self.entries

    def before(self, key: Key) -> int:
        """How many of them are ordered before a key."""
        return bisect_left(self.entries, (key,)) + bisect_left(self.shut, (key,))

    def sort_out(self) -> None:
        """Put every run on the side where it lies now."""
        entries = list(self.every())
        self.entries = [entry for entry in entries if not entry[1].kind.shut]
        self.shut = [entry for entry in entries if entry[1].kind.shut]


class ClassQueue:
    """The runs of a line that are of one kind, with time limits of one magnitude.

    No run in it has a limit below `shortest_s`.
    """

    __slots__ = ("entries", "kind", "line", "magnitude", "shortest_s")

    def __init__(self, line: ModeQueue, kind: RequestClass, magnitude: int) -> None:
        self.line = line
        self.kind = kind
        self.magnitude = magnitude
        self.shortest_s = inf
        self.entries: Entries = []


class Track:
    """The lanes of a kind, one for each entity of a fair share, with time limits of one magnitude."""

    __slots__ = ("lanes", "magnitude", "ranking")

    def __init__(self, magnitude: int) -> None:
        self.magnitude = magnitude
        self.lanes: dict[str, ClassQueue] = {}
        self.ranking = Ranking()

    @property
    def shortest_s(self) -> float:
        """No run in it has a limit below this."""
        return inf if self.magnitude == NO_LIMIT else ldexp(0.5, self.magnitude)


class PoolQueue:
    """The queued runs of one pool under its rules. `plain` lines are those of no entity, `fair` the others.

    `changes` is told whose first run may be another.
    """

    __slots__ = (
        "_changes",
        "_dated",
        "_eras",
        "_rules",
        "fail_if_busy",
        "fair",
        "kinds",
        "lines",
        "plain",
        "runs",
    )

    def __init__(self, rules: Pool, changes: Changes) -> None:
        self._rules = rules
        self._changes = changes
        self.plain: dict[int, ModeQueue] = {}
        self.fair: dict[str, ModeQueue] = {}
        self._dated = _dated(rules)
        self._eras: dict[int, float] = {}
        self.runs: dict[str, Queued] = {}
        self.fail_if_busy: dict[str, Queued] = {}
        self.lines: dict[tuple[int, str | None], ModeQueue] = {}
        self.kinds: dict[int, dict[RequestClass, None]] = {}

    def add(self, candidate: Candidate, kind: RequestClass) -> None:
        """Put a run in its place; it is in no queue now."""
        queued = self._make(candidate, kind)
        entry = (queued.key, queued)
        insort(queued.line.side(kind), entry)
        insort(queued.lane.entries, entry)
        if queued.line.entity is not None:
            self._changes.note(queued.line.entity)

    def add_all(self, runs: Iterable[tuple[Candidate, RequestClass]]) -> None:
        """Put many runs in their places, sorting once."""
        for candidate, kind in runs:
            queued = self._make(candidate, kind)
            entry = (queued.key, queued)
            queued.line.side(kind).append(entry)
            queued.lane.entries.append(entry)
            if queued.line.entity is not None:
                self._changes.note(queued.line.entity)
        for line in self.lines.values():
            line.entries.sort()
            line.shut.sort()
        for kinds in self.kinds.values():
            for kind in kinds:
                for lane in kind.lanes.values():
                    lane.entries.sort()

    def remove(self, run_id: str) -> Queued:
        """Take a run out."""
        queued = self.runs.pop(run_id)
        self.fail_if_busy.pop(run_id, None)
        line, lane, kind = queued.line, queued.lane, queued.kind
        _cut(line.side(kind), queued.key)
        _cut(lane.entries, queued.key)
        if line.entity is not None:
            self._changes.note(line.entity)
        if not lane.entries:
            self._close(lane)
        return queued

    def refresh(self, now: float) -> None:
        """Sort again those lines whose order is another than when they were last looked at."""
        for rank, era_of in self._dated:
            if (era := era_of(self._rules, now)) != self._eras.get(rank):
                stale = [queued for queued in self.runs.values() if queued.line.rank == rank]
                self._eras[rank] = era
                for queued in stale:
                    self.remove(queued.candidate.run_id)
                self.add_all((queued.candidate, queued.kind) for queued in stale)

    def restart(self, rules: Pool) -> list[tuple[Candidate, RequestClass]]:
        """Empty the queue for other rules; the runs that were in it are returned."""
        runs = [(queued.candidate, queued.kind) for queued in self.runs.values()]
        for candidate, _ in runs:
            self.remove(candidate.run_id)
        self._rules = rules
        self._dated = _dated(rules)
        self._eras.clear()
        return runs

    def shut(self, kinds: Iterable[RequestClass]) -> None:
        """Set aside the runs of just these kinds, and take those of all others into the lines again."""
        now_shut = set(kinds)
        changed: dict[ModeQueue, None] = {}
        for together in self.kinds.values():
            for kind in together:
                if kind.shut != (kind in now_shut):
                    kind.shut = not kind.shut
                    changed.update((lane.line, None) for lane in kind.lanes.values())
        for line in changed:
            line.sort_out()
            if line.entity is not None:
                self._changes.note(line.entity)

    def asking(self, most: float) -> Iterator[RequestClass]:
        """The kinds that ask for at most so many slots."""
        for slots, kinds in self.kinds.items():
            if slots <= most:
                yield from kinds

    def _make(self, candidate: Candidate, kind: RequestClass) -> Queued:
        rank = RANKS[candidate.mode]
        rules = self._rules
        order = ordering(rank, rules)
        entity = None if order.entity is None else order.entity(candidate, rules)
        line = self.lines.get((rank, entity))
        if line is None:
            line = self.lines[rank, entity] = ModeQueue(rank, entity)
            if entity is None:
                self.plain[rank] = line
            else:
                self.fair[entity] = line
        left_s = limit_s(candidate)
        magnitude = frexp(left_s)[1] if left_s < inf else NO_LIMIT
        lane = kind.lanes.get((rank, entity, magnitude))
        if lane is None:
            lane = self._open(line, kind, magnitude)
        lane.shortest_s = min(lane.shortest_s, left_s)
        queued = Queued(candidate, kind, line, lane, order.key(candidate, rules, self._eras.get(rank, 0.0)))
        self.runs[candidate.run_id] = queued
        if candidate.queueing is Queueing.FAIL_IF_BUSY:
            self.fail_if_busy[candidate.run_id] = queued
        return queued

    def _open(self, line: ModeQueue, kind: RequestClass, magnitude: int) -> ClassQueue:
        """A new lane."""
        if not kind.lanes:
            self.kinds.setdefault(kind.slots, {})[kind] = None
        lane = kind.lanes[line.rank, line.entity, magnitude] = ClassQueue(line, kind, magnitude)
        if line.entity is None:
            kind.plain[lane] = None
        else:
            track = kind.tracks.get(magnitude)
            if track is None:
                track = kind.tracks[magnitude] = Track(magnitude)
            track.lanes[line.entity] = lane
        return lane

    def _close(self, lane: ClassQueue) -> None:
        """A lane is empty, and its line may be."""
        line, kind = lane.line, lane.kind
        del kind.lanes[line.rank, line.entity, lane.magnitude]
        if line.entity is None:
            del kind.plain[lane]
        else:
            track = kind.tracks[lane.magnitude]
            del track.lanes[line.entity]
            if not track.lanes:
                del kind.tracks[lane.magnitude]
        if not kind.lanes:
            del self.kinds[kind.slots][kind]
        if not line.entries and not line.shut:
            del self.lines[line.rank, line.entity]
            if line.entity is None:
                del self.plain[line.rank]
            else:
                del self.fair[line.entity]


def _dated(rules: Pool) -> list[tuple[int, Callable[[Pool, float], float]]]:
    """The ranks whose order changes from era to era, and how to tell the era."""
    eras = [(rank, ordering(rank, rules).era) for rank in sorted(set(RANKS.values()))]
    return [(rank, era_of) for rank, era_of in eras if era_of is not None]


def limit_s(candidate: Candidate) -> float:
    """How long a run may still run (inf: no limit)."""
    if candidate.time_limit_s is None:
        return inf
    return max(0.0, candidate.time_limit_s - candidate.ran_s)


def _cut(entries: Entries, key: Key) -> None:
    del entries[bisect_left(entries, (key,))]
