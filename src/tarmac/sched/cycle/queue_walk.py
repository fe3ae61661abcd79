"""One pool's part of a pass: its queue walked in order, as far as anybody could start or has to be protected.

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
from tarmac.sched.index.queues import ClassQueue, ModeQueue, Queued, RequestClass, Track, limit_s
from tarmac.sched.policies.fairness import PastUsage
from tarmac.sched.policies.order import BATCH, Key

PROTECTED = 2
"""For how many blocked runs of a pool, the first in order, nodes are kept."""


MOVERS = 64
"""So many blocked runs of a line, after the protected ones, may have others give way in a pass."""

MOVING_LINES = 64
"""Of so many lines of a fair share, the least claims first: more are asked for whom nobody gives way."""


class QueueWalk(PoolCycle):
    """A pass over one pool."""

    def run(self, until: str | None = None) -> None:
        """Ask every run that could start or be protected, in order; stop before the run `until`."""
        if self.state.queue.runs:
            reached = self._run_first(until)
            if reached is not None:
                self._run_rest(reached, until)
        if until is None:
            self.wake_at(self.opening.wakes_at(self))

    def in_order(self) -> Iterator[Queued]:
        """All queued runs of the pool, in the order in which they are asked."""
        return (queued for *_, queued in heapq.merge(*map(self._stood, self.state.queue.lines.values())))

    def before(self, queued: Queued) -> int:
        """How many queued runs of the pool are asked before this one."""
        own = self.rank(queued.line)
        ahead = 0
        for line in self.state.queue.lines.values():
            if (rank := self.rank(line)) < own:
                ahead += len(line)
            elif rank == own:
                ahead += line.before(queued.key)
        return ahead

    def _stood(self, line: ModeQueue) -> Iterator[tuple[int, float, Key, Queued]]:
        """The runs of a line, each with where it stands among those of all lines."""
        rank, usage = self.rank(line)
        return ((rank, usage, key, queued) for key, queued in line.every())

    def walk(self, kinds: Iterable[RequestClass]) -> Walk:
        """A walk along all lanes of these kinds."""
        walk = Walk(self._usage_of)
        for kind in kinds:
            for lane in kind.plain:
                if not self.rests(lane.line):
                    walk.enter(lane)
            for track in kind.tracks.values():
                if self._past_usage is not None:
                    lanes = self.state.fair.lanes(track, self._past_usage)
                    walk.follow(BATCH, ((usage, key, lane, 0) for usage, key, lane in lanes))
        return walk

    def _run_first(self, until: str | None) -> dict[ModeQueue, Key | None] | None:
        """Ask run after run until enough are blocked: the lines that were walked along, where each stands.

        None for a line that is at its end, and for them all if the walk was stopped at the run `until`.
        """
        reached: dict[ModeQueue, Key | None] = {}
        walk = Walk(self._usage_of)
        for plain in self.state.queue.plain.values():
            if plain.rank not in self._deferred_modes:
                walk.enter(plain)
        if self._past_usage is not None and BATCH not in self.opening.passable:
            walk.follow(
                BATCH, ((usage, key, fair, 0) for usage, key, fair in self.state.fair.lines(self._past_usage))
            )
        stop = self._place_of(until)
        while len(self._blocked) + len(self.reservations) < PROTECTED:
            step = walk.next()
            if step is None or step[0][0] in self.opening.passable:
                break
            place, line, index = step
            assert isinstance(line, ModeQueue)
            if stop is not None and place >= stop:
                return None
            queued = line.entries[index][1]
            index += 1
            reached[line] = line.entries[index][0] if index < len(line.entries) else None
            walk.go_on(index)
            if self.ask(queued) or queued.candidate.run_id in self.state.queue.fail_if_busy:
                continue
            if not self._make_way(queued):
                self._blocked.append(queued)
        return reached

    def _run_rest(self, reached: dict[ModeQueue, Key | None], until: str | None) -> None:
        """Ask the others, as far as they could start: the first of each lane, and the next if that does."""
        walk = Walk(self._usage_of)
        self._enter_movers(walk, reached)
        for kind in self.state.queue.asking(max(self.state.board.free[None], 0)):
            if not kind.shut and self._worth_asking(kind):
                self._enter_lanes(walk, kind, reached)
        stop = self._place_of(until)
        while (step := walk.next()) is not None:
            place, lane, index = step
            assert isinstance(lane, ClassQueue)
            if stop is not None and place >= stop:
                return
            queued = lane.entries[index][1]
            if self.ask(queued) or self._make_way(queued):
                walk.go_on(index + 1)
            else:
                walk.go_on(self._skip(lane, index + 1))

    def _enter_lanes(self, walk: Walk, kind: RequestClass, reached: dict[ModeQueue, Key | None]) -> None:
        """Walk along the lanes of a kind of which a run could start."""
        for lane in kind.plain:
            if self.now + lane.shortest_s > kind.window_at or lane.line.rank in self._deferred_modes:
                continue
            if (index := _index(lane, reached)) is not None:
                walk.enter(lane, index)
        for track in kind.tracks.values():
            if self._past_usage is not None and self.now + track.shortest_s <= kind.window_at:
                walk.follow(BATCH, self._along(track, reached, self._past_usage))

    def _along(
        self, track: Track, reached: dict[ModeQueue, Key | None], past_usage: PastUsage
    ) -> Iterator[tuple[float, Key, ClassQueue, int]]:
        """The lanes of a fair share of which a run could start, as long as the kind fits."""
        for usage, _, lane in self.state.fair.lanes(track, past_usage):
            if self.cannot_fit(lane.kind) or self.now + track.shortest_s > lane.kind.window_at:
                return
            index = _index(lane, reached)
            if index is not None and self.now + lane.shortest_s <= lane.kind.window_at:
                yield usage, lane.entries[index][0], lane, index

    def _enter_movers(self, walk: Walk, reached: dict[ModeQueue, Key | None]) -> None:
        """Walk along the lanes of runs that may displace somebody: only the first in order are asked."""
        preemptor = self._preemptor
        if preemptor is None:
            return
        for line in self.state.queue.plain.values():
            if line.rank not in self._deferred_modes:
                for _, _, lane, index in self._movers(line, reached, preemptor):
                    walk.enter(lane, index)
        if self._past_usage is not None:
            lines = islice(self.state.fair.lines(self._past_usage), MOVING_LINES)
            walk.follow(
                BATCH,
                (
                    (usage, key, lane, index)
                    for usage, _, line in lines
                    for _, key, lane, index in self._movers(line, reached, preemptor)
                ),
            )

    def _movers(
        self, line: ModeQueue, reached: dict[ModeQueue, Key | None], preemptor: Preemptor
    ) -> Iterator[tuple[float, Key, ClassQueue, int]]:
        """The lanes of the first runs of a line that go on waiting, as long as any of its mode are asked."""
        start = reached.get(line, ())
        if start is None or not line.entries or not preemptor.can_preempt(line):
            return
        first = bisect_left(line.entries, (start,))
        met: set[ClassQueue] = set()
        for key, queued in line.entries[first : first + MOVERS]:
            if self.out_of_tries(line):
                return
            lane = queued.lane
            if lane not in met and (index := _index(lane, reached)) is not None:
                met.add(lane)
                yield 0.0, key, lane, index

    def _skip(self, lane: ClassQueue, index: int) -> int:
        """The next run of a lane that may start although the one before could not."""
        kind = lane.kind
        window_at = -inf if self.cannot_fit(kind) else kind.window_at
        if self.now + lane.shortest_s <= window_at:
            for later in range(index, len(lane.entries)):
                if self.now + limit_s(lane.entries[later][1].candidate) <= window_at:
                    return later
        return len(lane.entries)

    def _place_of(self, run_id: str | None) -> tuple[int, float, Key] | None:
        queued = None if run_id is None else self.state.queue.runs.get(run_id)
        if queued is None:
            return None
        return queued.line.rank, self._usage_of(queued.line), queued.key


def _index(lane: ClassQueue, reached: dict[ModeQueue, Key | None]) -> int | None:
    """Where to begin in a lane: behind what has been asked of its line (None: nothing is left)."""
    start = reached.get(lane.line, ())
    index = None if start is None else bisect_left(lane.entries, (start,))
    return index if index is not None and index < len(lane.entries) else None
