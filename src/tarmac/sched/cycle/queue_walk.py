"""The walk along a pool's queue, as far as a run could start or needs protection. Called by `cycle`."""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import count
from math import inf
from operator import attrgetter

from tarmac.model.cluster import Policy
from tarmac.sched.cycle.pool_cycle import FAILED_TRIES, OrderPlace, PoolCycle
from tarmac.sched.index.queues import ClassQueue, EntityQueues, ModeQueue, Queued, RequestClass, limit_s
from tarmac.sched.policies.fairness import PastUsage
from tarmac.sched.policies.order import BATCH, RANKS, Key

PREEMPTING_RUNS = 64
"""The number of blocked runs of a mode queue, after the protected ones, that may preempt others in a cycle.
"""

PREEMPTING_QUEUES = 64
"""The number of fair share mode queues, least used first, that may preempt others in a cycle."""


_Source = ModeQueue | ClassQueue
_Coming = Iterator[tuple[float, Key, _Source, int]]
"""Lists in order: the usage of their entity, the key of their next run, the list, and its index."""

_Entry = tuple[int, float, Key, int, _Source | None, int, _Coming | None]


_KEY_OF: Callable[[Queued], Key] = attrgetter("key")


class _Walk:
    """A merged walk along many sorted lists: a heap of lists, each with the index of its next run.

    Lists of a fair share are read lazily, the least claim first: a walk reaches few of them.
    `usage` gives the present usage of a mode queue, `key_of` the key by which a run is ordered.
    """

    __slots__ = ("_entered", "_heap", "_key_of", "_numbers", "_usage_of")

    def __init__(
        self, usage: Callable[[ModeQueue], float], key_of: Callable[[Queued], Key] = _KEY_OF
    ) -> None:
        self._usage_of = usage
        self._key_of = key_of
        self._heap: list[_Entry] = []
        self._entered: set[_Source] = set()
        self._numbers = count()

    def enter(self, source: _Source, index: int = 0) -> None:
        """Add this list from this index; does nothing if the walk has it already."""
        if source in self._entered or index >= len(source.entries):
            return
        self._entered.add(source)
        mode_queue = _mode_queue(source)
        key = self._key_of(source.entries[index][1])
        entry = (mode_queue.rank, self._usage_of(mode_queue), key, next(self._numbers), source, index, None)
        heapq.heappush(self._heap, entry)

    def follow(self, rank: int, coming: _Coming) -> None:
        """Add these lists lazily, each when its turn comes."""
        found = next(coming, None)
        if found is not None:
            usage, key, source, index = found
            heapq.heappush(self._heap, (rank, usage, key, next(self._numbers), source, index, coming))

    def next(self) -> tuple[OrderPlace, _Source, int] | None:
        """The next run by its list and index, and its place in the order. Repeats it until `go_on`."""
        while self._heap:
            rank, usage, key, number, source, index, coming = self._heap[0]
            assert source is not None
            if coming is not None:
                heapq.heappop(self._heap)
                self.enter(source, index)
                self.follow(rank, coming)
            elif (now := self._usage_of(_mode_queue(source))) != usage:
                heapq.heapreplace(self._heap, (rank, now, key, number, source, index, None))
            else:
                return (rank, usage, key), source, index
        return None

    def keep(self, useful: Callable[[_Source], bool]) -> None:
        """Leave out the lists that are of no use any more."""
        self._heap = [entry for entry in self._heap if entry[6] or (entry[4] and useful(entry[4]))]
        heapq.heapify(self._heap)

    def go_on(self, index: int) -> None:
        """Advance the list that `next` returned to this index."""
        rank, usage, _, number, source, _, _ = self._heap[0]
        assert source is not None
        if index < len(source.entries):
            key = self._key_of(source.entries[index][1])
            heapq.heapreplace(self._heap, (rank, usage, key, number, source, index, None))
        else:
            heapq.heappop(self._heap)


def _can_start(pool: PoolCycle, source: _Source) -> bool:
    return isinstance(source, ClassQueue) and pool.can_start(source.request)


def _mode_queue(source: _Source) -> ModeQueue:
    return source.mode_queue if isinstance(source, ClassQueue) else source


def _shortest_first(queued: Queued) -> Key:
    """The order in which runs pass a blocked one: within a priority by the magnitude of their time limits."""
    if queued.mode_queue.rank != BATCH:
        return queued.key
    priority, *place = queued.key
    return priority, queued.class_queue.magnitude, *place


def walk_queue(pool: PoolCycle, until: str | None = None) -> None:
    """Try every run of a pool that could start or needs protection, in order; stop before the run `until`."""
    if pool.state.queue.runs:
        walk = _QueueWalk(pool, until)
        if walk.run_first():
            walk.run_rest()


def along(pool: PoolCycle, requests: Iterable[RequestClass]) -> _Walk:
    """A walk along all class queues of these request classes."""
    walk, past_usage = _Walk(pool.usage_of), pool.due.past_usage
    for request in requests:
        for class_queue in request.plain:
            if not pool.is_deferred(class_queue.mode_queue):
                walk.enter(class_queue)
        for entity_queues in request.fair.values():
            if past_usage is not None:
                class_queues = pool.state.fair.class_queues(entity_queues, past_usage)
                walk.follow(BATCH, ((usage, key, found, 0) for usage, key, found in class_queues))
    return walk


class _QueueWalk:
    """One walk. `_reached` has the next run of each mode queue walked so far (None: its end).

    `_others_at` is the place of the first run that is not among those that may preempt others.
    """

    def __init__(self, pool: PoolCycle, until: str | None) -> None:
        self._pool = pool
        self._due = pool.due
        self._queue = pool.state.queue
        self._fair = pool.state.fair
        self._until = None if until is None else self._queue.runs.get(until)
        self._reached: dict[ModeQueue, Key | None] = {}
        self._others_at: OrderPlace = (len(RANKS), 0.0, ())

    def run_first(self) -> bool:
        """Try run after run until one is blocked; False if the walk reached the run at which it stops."""
        pool, stop = self._pool, self._stop()
        walk = _Walk(pool.usage_of)
        for plain in self._plain():
            walk.enter(plain)
        if self._due.past_usage is not None and BATCH not in self._due.passable:
            fair = self._fair.mode_queues(self._due.past_usage)
            walk.follow(BATCH, ((usage, key, mode_queue, 0) for usage, key, mode_queue in fair))
        while not pool.blocked and not pool.reservations:
            step = walk.next()
            if step is None or step[0][0] in self._due.passable:
                break
            place, mode_queue, index = step
            assert isinstance(mode_queue, ModeQueue)
            if stop is not None and place >= stop:
                return False
            entries = mode_queue.entries
            queued = entries[index][1]
            index += 1
            self._reached[mode_queue] = entries[index][0] if index < len(entries) else None
            walk.go_on(index)
            if pool.exceeded(queued.candidate, queued.request):
                continue
            if pool.try_start(queued) or queued.candidate.run_id in self._queue.fail_if_busy:
                continue
            if not pool.preempt_for(queued):
                pool.blocked.append(queued)
        return True

    def run_rest(self) -> None:
        """Try the other runs that could start: the first of each class queue, and the next if it starts.

        Runs that may preempt others come first. The walk looks for others that fit once it is past them,
        because little is free and unreserved by then.
        """
        pool, stop = self._pool, self._stop()
        key_of = _KEY_OF
        if pool.state.rules.policy is Policy.PRIORITY and self._due.preemptor is None:
            key_of = _shortest_first
            if self._until is not None:
                stop = (*pool.rank(self._until.mode_queue), key_of(self._until))
        walk, complete = _Walk(pool.usage_of, key_of), False
        self._enter_preempting(walk)
        while (step := walk.next()) is not None or not complete:
            if not complete and (step is None or self._is_past_preempting(*step)):
                complete = True
                self._complete(walk)
                continue
            assert step is not None
            place, class_queue, index = step
            assert isinstance(class_queue, ClassQueue)
            if stop is not None and place >= stop:
                return
            queued = class_queue.entries[index][1]
            started = not pool.exceeded(queued.candidate, queued.request) and (
                pool.try_start(queued) or pool.preempt_for(queued)
            )
            walk.go_on(index + 1 if started else self._skip(class_queue, index + 1))

    def _stop(self) -> OrderPlace | None:
        """The place of the run at which the walk stops. It changes as other runs of its entity start."""
        return None if self._until is None else self._pool.place(self._until)

    def _plain(self) -> Iterator[ModeQueue]:
        """The mode queues without an entity that are not deferred."""
        return (found for found in self._queue.plain.values() if not self._pool.is_deferred(found))

    def _is_past_preempting(self, place: OrderPlace, source: _Source, _index: int) -> bool:
        return place >= self._others_at or not self._pool.may_preempt(_mode_queue(source))

    def _complete(self, walk: _Walk) -> None:
        """Add the runs that could start, and leave out those that can neither start nor preempt others."""
        pool, board = self._pool, self._pool.state.board
        walk.keep(lambda source: pool.may_preempt(_mode_queue(source)) or _can_start(pool, source))
        unreserved = inf if pool.spare_room else board.unreserved
        for request in self._queue.up_to(max(board.free[None], 0)):
            fits = request.slots <= unreserved or request.limited
            if fits and not request.parked and pool.can_start(request):
                self._enter_class_queues(walk, request)

    def _enter_class_queues(self, walk: _Walk, request: RequestClass) -> None:
        """Add the class queues of a request class of which a run could start."""
        pool = self._pool
        for class_queue in request.plain:
            if pool.ends_in_time(request, class_queue.shortest_s) and not pool.is_deferred(
                class_queue.mode_queue
            ):
                index = self._index(class_queue)
                if index is not None:
                    walk.enter(class_queue, index)
        if self._due.past_usage is not None:
            for entity_queues in request.fair.values():
                if pool.ends_in_time(request, entity_queues.shortest_s):
                    walk.follow(BATCH, self._along(request, entity_queues, self._due.past_usage))

    def _along(
        self, request: RequestClass, entity_queues: EntityQueues, past_usage: PastUsage
    ) -> Iterator[tuple[float, Key, ClassQueue, int]]:
        """The class queues of a fair share of which a run could start, as long as the request class fits."""
        pool = self._pool
        for usage, _, class_queue in self._fair.class_queues(entity_queues, past_usage):
            if pool.cannot_fit(request) or not pool.ends_in_time(request, entity_queues.shortest_s):
                return
            index = self._index(class_queue)
            if index is not None and pool.ends_in_time(request, class_queue.shortest_s):
                yield usage, class_queue.entries[index][0], class_queue, index

    def _enter_preempting(self, walk: _Walk) -> None:
        """Add the class queues of runs that may preempt others, the first in order only."""
        if self._due.preemptor is None:
            return
        for plain in self._plain():
            for _, class_queue, index in self._preempting(plain):
                walk.enter(class_queue, index)
        if self._due.past_usage is not None:
            walk.follow(BATCH, self._fair_preempting(self._due.past_usage))

    def _fair_preempting(self, past_usage: PastUsage) -> _Coming:
        for number, (usage, key, mode_queue) in enumerate(self._fair.mode_queues(past_usage)):
            futile = mode_queue.entries and self._pool.failed_tries[BATCH] >= FAILED_TRIES
            if futile or number == PREEMPTING_QUEUES:
                self._others_at = min(self._others_at, (BATCH, usage, key))
                return
            for preempting in self._preempting(mode_queue):
                yield usage, *preempting

    def _preempting(self, mode_queue: ModeQueue) -> Iterator[tuple[Key, ClassQueue, int]]:
        """The class queues of the first runs that still wait, until their mode is out of tries."""
        start, entries = self._reached.get(mode_queue, ()), mode_queue.entries
        if start is None or not entries:
            return
        first = bisect_left(entries, (start,))
        end = first + PREEMPTING_RUNS if self._pool.may_preempt(mode_queue) else first
        if end < len(entries):
            self._others_at = min(self._others_at, (*self._pool.rank(mode_queue), entries[end][0]))
        met: set[ClassQueue] = set()
        for key, queued in entries[first:end]:
            class_queue = queued.class_queue
            if class_queue in met:
                continue
            if not self._pool.may_preempt(mode_queue):
                return
            if (index := self._index(class_queue)) is not None:
                met.add(class_queue)
                yield key, class_queue, index

    def _skip(self, class_queue: ClassQueue, index: int) -> int:
        """The index of the next run of a class queue that may start although the one before could not."""
        pool, request, entries = self._pool, class_queue.request, class_queue.entries
        if not pool.cannot_fit(request) and pool.ends_in_time(request, class_queue.shortest_s):
            for later in range(index, len(entries)):
                if pool.ends_in_time(request, limit_s(entries[later][1].candidate)):
                    return later
        return len(entries)

    def _index(self, class_queue: ClassQueue) -> int | None:
        """The next index of a class queue that its mode queue's walk did not reach; None at its end."""
        start = self._reached.get(class_queue.mode_queue, ())
        index = None if start is None else bisect_left(class_queue.entries, (start,))
        return index if index is not None and index < len(class_queue.entries) else None
