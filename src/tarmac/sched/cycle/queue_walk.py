"""One pool's part of a cycle: its queue walked in order, as far as anybody could start or has to be
protected.

Made by `cycle` for each pool, and by `explain` and `listing`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice
from math import inf

from tarmac.sched.cycle.merged import Walk
from tarmac.sched.cycle.pool_cycle import PoolCycle, Preemptor
from tarmac.sched.index.queues import ClassQueue, EntityQueues, ModeQueue, Queued, RequestClass, limit_s
from tarmac.sched.policies.fairness import PastUsage
from tarmac.sched.policies.order import BATCH, Key

PROTECTED = 2
"""For how many blocked runs of a pool, the first in order, nodes are kept."""


PREEMPTING_RUNS = 64
"""So many blocked runs of a mode queue, after the protected ones, may have others give way in a cycle."""

PREEMPTING_QUEUES = 64
"""Of so many mode queues of a fair share, the least claims first: more are asked for whom nobody gives way.
"""


class QueueWalk(PoolCycle):
    """A cycle over one pool."""

    def run(self, until: str | None = None) -> None:
        """Ask every run that could start or be protected, in order; stop before the run `until`."""
        if self.state.queue.runs:
            reached = self._run_first(until)
            if reached is not None:
                self._run_rest(reached, until)
        if until is None:
            self.wake_at(self.due.wakes_at(self))

    def in_order(self) -> Iterator[Queued]:
        """All queued runs of the pool, in the order in which they are asked."""
        return (
            queued for *_, queued in heapq.merge(*map(self._ranked, self.state.queue.mode_queues.values()))
        )

    def before(self, queued: Queued) -> int:
        """How many queued runs of the pool are asked before this one."""
        own = self.rank(queued.mode_queue)
        ahead = 0
        for mode_queue in self.state.queue.mode_queues.values():
            if (rank := self.rank(mode_queue)) < own:
                ahead += len(mode_queue)
            elif rank == own:
                ahead += mode_queue.before(queued.key)
        return ahead

    def _ranked(self, mode_queue: ModeQueue) -> Iterator[tuple[int, float, Key, Queued]]:
        """The runs of a mode queue, each with where it stands among those of all mode queues."""
        rank, usage = self.rank(mode_queue)
        return ((rank, usage, key, queued) for key, queued in mode_queue.every())

    def walk(self, requests: Iterable[RequestClass]) -> Walk:
        """A walk along all class queues of these request classes."""
        walk = Walk(self._usage_of)
        for request in requests:
            for class_queue in request.plain:
                if not self.is_deferred(class_queue.mode_queue):
                    walk.enter(class_queue)
            for entity_queues in request.fair.values():
                if self._past_usage is not None:
                    class_queues = self.state.fair.class_queues(entity_queues, self._past_usage)
                    walk.follow(
                        BATCH, ((usage, key, class_queue, 0) for usage, key, class_queue in class_queues)
                    )
        return walk

    def _run_first(self, until: str | None) -> dict[ModeQueue, Key | None] | None:
        """Ask run after run until enough are blocked: the mode queues that were walked along, where each
        stands.

        None for a mode queue that is at its end, and for them all if the walk was stopped at the run `until`.
        """
        reached: dict[ModeQueue, Key | None] = {}
        walk = Walk(self._usage_of)
        for plain in self.state.queue.plain.values():
            if plain.rank not in self._deferred_modes:
                walk.enter(plain)
        if self._past_usage is not None and BATCH not in self.due.passable:
            walk.follow(
                BATCH,
                ((usage, key, fair, 0) for usage, key, fair in self.state.fair.mode_queues(self._past_usage)),
            )
        stop = self._place_of(until)
        while len(self._blocked) + len(self.reservations) < PROTECTED:
            step = walk.next()
            if step is None or step[0][0] in self.due.passable:
                break
            place, mode_queue, index = step
            assert isinstance(mode_queue, ModeQueue)
            if stop is not None and place >= stop:
                return None
            queued = mode_queue.entries[index][1]
            index += 1
            reached[mode_queue] = mode_queue.entries[index][0] if index < len(mode_queue.entries) else None
            walk.go_on(index)
            if self.try_start(queued) or queued.candidate.run_id in self.state.queue.fail_if_busy:
                continue
            if not self._preempt_for(queued):
                self._blocked.append(queued)
        return reached

    def _run_rest(self, reached: dict[ModeQueue, Key | None], until: str | None) -> None:
        """Ask the others, as far as they could start: the first of each class queue, and the next if that
        does.
        """
        walk = Walk(self._usage_of)
        self._enter_preempting(walk, reached)
        for request in self.state.queue.up_to(max(self.state.board.free[None], 0)):
            if not request.parked and self._can_start(request):
                self._enter_class_queues(walk, request, reached)
        stop = self._place_of(until)
        while (step := walk.next()) is not None:
            place, class_queue, index = step
            assert isinstance(class_queue, ClassQueue)
            if stop is not None and place >= stop:
                return
            queued = class_queue.entries[index][1]
            if self.try_start(queued) or self._preempt_for(queued):
                walk.go_on(index + 1)
            else:
                walk.go_on(self._skip(class_queue, index + 1))

    def _enter_class_queues(
        self, walk: Walk, request: RequestClass, reached: dict[ModeQueue, Key | None]
    ) -> None:
        """Walk along the class queues of a request class of which a run could start."""
        for class_queue in request.plain:
            if (
                self.now + class_queue.shortest_s > request.window_at
                or class_queue.mode_queue.rank in self._deferred_modes
            ):
                continue
            if (index := _index(class_queue, reached)) is not None:
                walk.enter(class_queue, index)
        for entity_queues in request.fair.values():
            if self._past_usage is not None and self.now + entity_queues.shortest_s <= request.window_at:
                walk.follow(BATCH, self._along(entity_queues, reached, self._past_usage))

    def _along(
        self, entity_queues: EntityQueues, reached: dict[ModeQueue, Key | None], past_usage: PastUsage
    ) -> Iterator[tuple[float, Key, ClassQueue, int]]:
        """The class queues of a fair share of which a run could start, as long as the request class fits."""
        for usage, _, class_queue in self.state.fair.class_queues(entity_queues, past_usage):
            if (
                self.cannot_fit(class_queue.request)
                or self.now + entity_queues.shortest_s > class_queue.request.window_at
            ):
                return
            index = _index(class_queue, reached)
            if index is not None and self.now + class_queue.shortest_s <= class_queue.request.window_at:
                yield usage, class_queue.entries[index][0], class_queue, index

    def _enter_preempting(self, walk: Walk, reached: dict[ModeQueue, Key | None]) -> None:
        """Walk along the class queues of runs that may preempt others: only the first in order are asked."""
        preemptor = self._preemptor
        if preemptor is None:
            return
        for mode_queue in self.state.queue.plain.values():
            if mode_queue.rank not in self._deferred_modes:
                for _, _, class_queue, index in self._preempting(mode_queue, reached, preemptor):
                    walk.enter(class_queue, index)
        if self._past_usage is not None:
            mode_queues = islice(self.state.fair.mode_queues(self._past_usage), PREEMPTING_QUEUES)
            walk.follow(
                BATCH,
                (
                    (usage, key, class_queue, index)
                    for usage, _, mode_queue in mode_queues
                    for _, key, class_queue, index in self._preempting(mode_queue, reached, preemptor)
                ),
            )

    def _preempting(
        self, mode_queue: ModeQueue, reached: dict[ModeQueue, Key | None], preemptor: Preemptor
    ) -> Iterator[tuple[float, Key, ClassQueue, int]]:
        """The class queues of the first runs of a mode queue that go on waiting, as long as any of its mode
        are asked.
        """
        start = reached.get(mode_queue, ())
        if start is None or not mode_queue.entries or not preemptor.can_preempt(mode_queue):
            return
        first = bisect_left(mode_queue.entries, (start,))
        met: set[ClassQueue] = set()
        for key, queued in mode_queue.entries[first : first + PREEMPTING_RUNS]:
            if self.out_of_tries(mode_queue):
                return
            class_queue = queued.class_queue
            if class_queue not in met and (index := _index(class_queue, reached)) is not None:
                met.add(class_queue)
                yield 0.0, key, class_queue, index

    def _skip(self, class_queue: ClassQueue, index: int) -> int:
        """The next run of a class queue that may start although the one before could not."""
        request = class_queue.request
        window_at = -inf if self.cannot_fit(request) else request.window_at
        if self.now + class_queue.shortest_s <= window_at:
            for later in range(index, len(class_queue.entries)):
                if self.now + limit_s(class_queue.entries[later][1].candidate) <= window_at:
                    return later
        return len(class_queue.entries)

    def _place_of(self, run_id: str | None) -> tuple[int, float, Key] | None:
        queued = None if run_id is None else self.state.queue.runs.get(run_id)
        if queued is None:
            return None
        return queued.mode_queue.rank, self._usage_of(queued.mode_queue), queued.key


def _index(class_queue: ClassQueue, reached: dict[ModeQueue, Key | None]) -> int | None:
    """Where to begin in a class queue: behind what has been asked of its mode queue (None: nothing is
    left).
    """
    start = reached.get(class_queue.mode_queue, ())
    index = None if start is None else bisect_left(class_queue.entries, (start,))
    return index if index is not None and index < len(class_queue.entries) else None
