"""The sorted queue of one pool: mode queues of ordered runs, and class queues of equal requests.

A *mode queue* holds all runs of one mode (of one entity, under fair share). A *class queue* is the part of a
mode queue that is of one `RequestClass` and has time limits of one magnitude: when its first run cannot
start, a cycle skips the others together. Kept by `PoolState`, walked by `queue_walk`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import merge
from itertools import chain
from math import frexp, inf, ldexp

from tarmac.model.cluster import Pool
from tarmac.model.spec import Queueing, Target
from tarmac.sched.facts import Candidate, requested_slots
from tarmac.sched.placing.admission import Demands, Feasibility
from tarmac.sched.placing.fitting import Count, Part, Way
from tarmac.sched.placing.gangs import fit
from tarmac.sched.placing.view import View
from tarmac.sched.policies.order import RANKS, Key, ordering
from tarmac.sched.policies.ranking import Changes, Ranking

NO_LIMIT = 10_000
"""The magnitude of no time limit, bigger than any other."""


Standing = tuple[frozenset[str], bool]
"""The reservations that admit a run, and whether its mode lets the scheduler preempt it."""

UNRESERVED: Standing = (frozenset(), False)
"""The standing of every run as long as no nodes are reserved."""


@dataclass(slots=True, eq=False)
class RequestClass:
    """Runs with equal requests on the same target, and the facts common to them.

    `slots` is the total request, `slot_type` the one type that they name (None: any, or several). `limited`
    counts its class queues of runs with time limits. `parked`: its home pool could not fit it even if all
    nodes that take work were empty, because others are drained or reserved.
    """

    demands: Demands
    target: Target
    feasibility: Feasibility
    slots: int
    slot_type: str | None
    weightless: bool
    count: Count | None
    standing: Standing = UNRESERVED
    class_queues: dict[tuple[int, str | None, int], ClassQueue] = field(default_factory=dict)
    plain: dict[ClassQueue, None] = field(default_factory=dict)
    fair: dict[int, EntityQueues] = field(default_factory=dict)
    limited: int = 0
    parked: bool = False

    @classmethod
    def of(
        cls, demands: Demands, target: Target, feasibility: Feasibility, standing: Standing
    ) -> RequestClass:
        """The request class of runs with these demands."""
        types = {demand.each.slot_type for demand in demands if not demand.empty}
        return cls(
            demands=demands,
            target=target,
            feasibility=feasibility,
            slots=requested_slots(demands),
            slot_type=types.pop() if len(types) == 1 else None,
            weightless=all(demand.empty for demand in demands),
            count=Count.of(demands, target, uneven=feasibility.uneven),
            standing=standing,
        )

    def fit(self, view: View, way: Way | None = None) -> list[Part] | None:
        """A place for a run on these nodes; `way` splits its slots, if known."""
        return fit(self.demands, view, uneven=self.feasibility.uneven, way=way)


@dataclass(slots=True, eq=False)
class Queued:
    """A run in the queue of a pool, and its place there."""

    candidate: Candidate
    request: RequestClass
    mode_queue: ModeQueue
    class_queue: ClassQueue
    key: Key


Entry = tuple[Key, Queued]
Entries = list[Entry]
"""Sorted by keys, which end in the run's id: two runs are never compared."""


class ModeQueue:
    """All queued runs of one mode (and of one entity, if any), in order.

    Runs of `parked` request classes are in a separate list, which cycles do not walk.
    """

    __slots__ = ("entity", "entries", "parked", "rank")

    def __init__(self, rank: int, entity: str | None) -> None:
        self.rank = rank
        self.entity = entity
        self.entries: Entries = []
        self.parked: Entries = []

    @property
    def first(self) -> Queued:
        """The first run in order that is not parked; the first parked one if there is no other."""
        return (self.entries or self.parked)[0][1]

    def entries_of(self, request: RequestClass) -> Entries:
        """The list that has the runs of a request class."""
        return self.parked if request.parked else self.entries

    def __len__(self) -> int:
        return len(self.entries) + len(self.parked)

    def every(self) -> Iterable[Entry]:
        """All entries, parked or not, in order."""
        return merge(self.entries, self.parked) if self.parked else self.entries

    def before(self, key: Key) -> int:
        """The number of runs ordered before a key."""
        return bisect_left(self.entries, (key,)) + bisect_left(self.parked, (key,))

    def split(self) -> None:
        """Move every run to the list that fits its request class now."""
        entries = list(self.every())
        self.entries = [entry for entry in entries if not entry[1].request.parked]
        self.parked = [entry for entry in entries if entry[1].request.parked]


class ClassQueue:
    """The runs of a mode queue of one request class, with time limits of one magnitude.

    No run in it has a limit below `shortest_s`.
    """

    __slots__ = ("entries", "magnitude", "mode_queue", "request", "shortest_s")

    def __init__(self, mode_queue: ModeQueue, request: RequestClass, magnitude: int) -> None:
        self.mode_queue = mode_queue
        self.request = request
        self.magnitude = magnitude
        self.shortest_s = inf
        self.entries: Entries = []


class EntityQueues:
    """The class queues of a request class, one per entity of a fair share, of one time limit magnitude."""

    __slots__ = ("class_queues", "magnitude", "ranking")

    def __init__(self, magnitude: int) -> None:
        self.magnitude = magnitude
        self.class_queues: dict[str, ClassQueue] = {}
        self.ranking = Ranking()

    @property
    def shortest_s(self) -> float:
        """No run in it has a limit below this."""
        return inf if self.magnitude == NO_LIMIT else ldexp(0.5, self.magnitude)


class PoolQueue:
    """The queued runs of one pool under its rules.

    `plain` mode queues have no entity, `fair` ones do. `changes` notes entities whose first run may have
    changed.
    """

    __slots__ = ("_changes", "_dated", "_eras", "_rules", "fail_if_busy", "fair", "plain", "requests", "runs")

    def __init__(self, rules: Pool, changes: Changes) -> None:
        self._rules = rules
        self._changes = changes
        self.plain: dict[int, ModeQueue] = {}
        self.fair: dict[str, ModeQueue] = {}
        self._dated = _dated(rules)
        self._eras: dict[int, float] = {}
        self.runs: dict[str, Queued] = {}
        self.fail_if_busy: dict[str, Queued] = {}
        self.requests: dict[int, dict[RequestClass, None]] = {}

    def add(self, candidate: Candidate, request: RequestClass) -> None:
        """Add a run that is in no queue."""
        queued = self._make(candidate, request)
        entry = (queued.key, queued)
        insort(queued.mode_queue.entries_of(request), entry)
        insort(queued.class_queue.entries, entry)
        if queued.mode_queue.entity is not None:
            self._changes.note(queued.mode_queue.entity)

    def add_all(self, runs: Iterable[tuple[Candidate, RequestClass]]) -> None:
        """Add many runs, sorting each changed list once."""
        mode_queues: dict[ModeQueue, None] = {}
        class_queues: dict[ClassQueue, None] = {}
        for candidate, request in runs:
            queued = self._make(candidate, request)
            entry = (queued.key, queued)
            queued.mode_queue.entries_of(request).append(entry)
            queued.class_queue.entries.append(entry)
            mode_queues[queued.mode_queue] = class_queues[queued.class_queue] = None
            if queued.mode_queue.entity is not None:
                self._changes.note(queued.mode_queue.entity)
        for mode_queue in mode_queues:
            mode_queue.entries.sort()
            mode_queue.parked.sort()
        for class_queue in class_queues:
            class_queue.entries.sort()

    def remove(self, run_id: str) -> Queued:
        """Remove a run."""
        queued = self.runs.pop(run_id)
        self.fail_if_busy.pop(run_id, None)
        mode_queue, class_queue, request = queued.mode_queue, queued.class_queue, queued.request
        _cut(mode_queue.entries_of(request), queued.key)
        _cut(class_queue.entries, queued.key)
        if mode_queue.entity is not None:
            self._changes.note(mode_queue.entity)
        if not class_queue.entries:
            self._close(class_queue)
        return queued

    def refresh(self, now: float) -> None:
        """Sort the mode queues again whose order has changed since the last refresh."""
        for rank, era_of in self._dated:
            if (era := era_of(self._rules, now)) != self._eras.get(rank):
                self._eras[rank] = era
                if rank not in self.plain:  # no order has both eras and entities
                    continue
                stale = [queued for _, queued in self.plain[rank].every()]
                for queued in reversed(stale):  # removing the last of a list moves no other
                    self.remove(queued.candidate.run_id)
                self.add_all((queued.candidate, queued.request) for queued in stale)

    def restart(self, rules: Pool) -> list[tuple[Candidate, RequestClass]]:
        """Empty the queue for other rules, and return its runs."""
        runs = [(queued.candidate, queued.request) for queued in self.runs.values()]
        for candidate, _ in runs:
            self.remove(candidate.run_id)
        self._rules = rules
        self._dated = _dated(rules)
        self._eras.clear()
        return runs

    def park(self, requests: Iterable[RequestClass]) -> None:
        """Park the runs of exactly these request classes, and return all others to the mode queues."""
        parked = set(requests)
        changed: dict[ModeQueue, None] = {}
        for together in self.requests.values():
            for request in together:
                if request.parked != (request in parked):
                    request.parked = not request.parked
                    changed.update((each.mode_queue, None) for each in request.class_queues.values())
        for mode_queue in changed:
            mode_queue.split()
            if mode_queue.entity is not None:
                self._changes.note(mode_queue.entity)

    def mode_queues(self) -> Iterable[ModeQueue]:
        """All mode queues."""
        return chain(self.plain.values(), self.fair.values())

    def up_to(self, most: float) -> Iterator[RequestClass]:
        """The request classes that ask for at most `most` slots."""
        for slots, requests in self.requests.items():
            if slots <= most:
                yield from requests

    def _make(self, candidate: Candidate, request: RequestClass) -> Queued:
        rank = RANKS[candidate.mode]
        rules = self._rules
        order = ordering(rank, rules)
        entity = None if order.entity is None else order.entity(candidate, rules)
        mode_queue = self.plain.get(rank) if entity is None else self.fair.get(entity)
        if mode_queue is None:
            mode_queue = ModeQueue(rank, entity)
            if entity is None:
                self.plain[rank] = mode_queue
            else:
                self.fair[entity] = mode_queue
        left_s = limit_s(candidate)
        magnitude = frexp(left_s)[1] if left_s < inf else NO_LIMIT
        class_queue = request.class_queues.get((rank, entity, magnitude))
        if class_queue is None:
            class_queue = self._open(mode_queue, request, magnitude)
        class_queue.shortest_s = min(class_queue.shortest_s, left_s)
        key = order.key(candidate, rules, self._eras.get(rank, 0.0))
        queued = Queued(candidate, request, mode_queue, class_queue, key)
        self.runs[candidate.run_id] = queued
        if candidate.queueing is Queueing.FAIL_IF_BUSY:
            self.fail_if_busy[candidate.run_id] = queued
        return queued

    def _open(self, mode_queue: ModeQueue, request: RequestClass, magnitude: int) -> ClassQueue:
        """Add and return a new class queue."""
        if not request.class_queues:
            self.requests.setdefault(request.slots, {})[request] = None
        request.limited += magnitude != NO_LIMIT
        class_queue = ClassQueue(mode_queue, request, magnitude)
        request.class_queues[mode_queue.rank, mode_queue.entity, magnitude] = class_queue
        if mode_queue.entity is None:
            request.plain[class_queue] = None
        else:
            entity_queues = request.fair.get(magnitude)
            if entity_queues is None:
                entity_queues = request.fair[magnitude] = EntityQueues(magnitude)
            entity_queues.class_queues[mode_queue.entity] = class_queue
        return class_queue

    def _close(self, class_queue: ClassQueue) -> None:
        """Remove an empty class queue, and its mode queue if that is empty."""
        mode_queue, request = class_queue.mode_queue, class_queue.request
        request.limited -= class_queue.magnitude != NO_LIMIT
        del request.class_queues[mode_queue.rank, mode_queue.entity, class_queue.magnitude]
        if mode_queue.entity is None:
            del request.plain[class_queue]
        else:
            entity_queues = request.fair[class_queue.magnitude]
            del entity_queues.class_queues[mode_queue.entity]
            if not entity_queues.class_queues:
                del request.fair[class_queue.magnitude]
        if not request.class_queues:
            del self.requests[request.slots][request]
        if not mode_queue.entries and not mode_queue.parked:
            if mode_queue.entity is None:
                del self.plain[mode_queue.rank]
            else:
                del self.fair[mode_queue.entity]


def _dated(rules: Pool) -> list[tuple[int, Callable[[Pool, float], float]]]:
    """The ranks whose order changes from era to era, and the functions that give the era."""
    eras = [(rank, ordering(rank, rules).era) for rank in sorted(set(RANKS.values()))]
    return [(rank, era_of) for rank, era_of in eras if era_of is not None]


def limit_s(candidate: Candidate) -> float:
    """How many seconds a run may still run (inf: no limit)."""
    if candidate.time_limit_s is None:
        return inf
    return max(0.0, candidate.time_limit_s - candidate.ran_s)


def _cut(entries: Entries, key: Key) -> None:
    del entries[bisect_left(entries, (key,))]
