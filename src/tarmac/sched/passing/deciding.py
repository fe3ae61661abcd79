"""One pool's part of a pass: its queue walked in order, as far as anybody could start or has to be protected.

Made by `planning` for each pool, and by `explain` and `listing`.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Iterator
from math import inf

from tarmac.sched.books.lanes import Lane, Line, Queued, limit_s
from tarmac.sched.passing.asking import Asking
from tarmac.sched.policies.order import Key

PROTECTED = 2
"""For how many blocked runs of a pool, the first in order, nodes are kept."""


MOVERS = 64
"""So many blocked runs of a line, after the protected ones, may have others give way in a pass."""


class PoolPass(Asking):
    """A pass over one pool."""

    def run(self, until: str | None = None) -> None:
        """Ask every run that could start or be protected, in order; stop before the run `until`."""
        if self.state.queue.runs:
            rest = self._run_first(until)
            if rest:
                self._run_rest(rest, until)
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

    def _stood(self, line: Line) -> Iterator[tuple[int, float, Key, Queued]]:
        """The runs of a line, each with where it stands among those of all lines."""
        rank, claim = self.rank(line)
        return ((rank, claim, key, queued) for key, queued in line.every())

    def _run_first(self, until: str | None) -> dict[Line, Key] | None:
        """Ask run after run until enough are blocked; where each line then stands (None: stopped)."""
        heap = [
            (line.rank, self._claim(line), line.entries[0][0], line, 0)
            for line in self.state.queue.lines.values()
            if line.rank not in self._resting and line.entries
        ]
        heapq.heapify(heap)
        stop = self._place_of(until)
        while heap and len(self._blocked) + len(self.keepings) < PROTECTED:
            rank, claim, key, line, index = heap[0]
            if rank in self.opening.passable:
                break
            if (now := self._claim(line)) != claim:
                heapq.heapreplace(heap, (rank, now, line.entries[index][0], line, index))
                continue
            if stop is not None and (rank, claim, key) >= stop:
                return None
            queued = line.entries[index][1]
            index += 1
            if index < len(line.entries):
                heapq.heapreplace(heap, (rank, claim, line.entries[index][0], line, index))
            else:
                heapq.heappop(heap)
            if self.ask(queued) or queued.candidate.run_id in self.state.queue.hasty:
                continue
            if not self._make_way(queued):
                self._blocked.append(queued)
        return {line: line.entries[index][0] for _, _, _, line, index in heap}

    def _run_rest(self, rest: dict[Line, Key], until: str | None) -> None:
        """Ask the others, as far as they could start: the first of each lane, and the next if that does."""
        heap = [
            (lane.line.rank, self._claim(lane.line), lane.entries[index][0], lane, index)
            for lane, index in self._lanes(rest)
        ]
        if not heap:
            return
        heapq.heapify(heap)
        stop = self._place_of(until)
        while heap:
            rank, claim, key, lane, index = heap[0]
            if (now := self._claim(lane.line)) != claim:
                heapq.heapreplace(heap, (rank, now, key, lane, index))
                continue
            if stop is not None and (rank, claim, key) >= stop:
                return
            queued = lane.entries[index][1]
            if self.ask(queued) or self._make_way(queued):
                index += 1
            else:
                index = self._skip(lane, index + 1)
            if index < len(lane.entries):
                heapq.heapreplace(heap, (rank, claim, lane.entries[index][0], lane, index))
            else:
                heapq.heappop(heap)

    def _lanes(self, rest: dict[Line, Key]) -> Iterator[tuple[Lane, int]]:
        """Lanes of which a run could start, or displace somebody, with its index."""
        movers = {lane for line, start in rest.items() for lane in self._movers(line, start)}
        for kind in self.state.queue.asking(max(self.state.board.free[None], 0)):
            if self._worth_asking(kind):
                movers.update(
                    lane
                    for lane in kind.lanes.values()
                    if lane.line in rest and self.now + lane.shortest_s <= kind.window_at
                )
        for lane in movers:
            index = bisect_left(lane.entries, (rest[lane.line],))
            if index < len(lane.entries):
                yield lane, index

    def _movers(self, line: Line, start: Key) -> Iterator[Lane]:
        """The lanes of those runs of a line that may displace somebody: only the first in order are asked."""
        if self._displacer is not None and self._displacer.may(line):
            index = bisect_left(line.entries, (start,))
            for _, queued in line.entries[index : index + MOVERS]:
                yield queued.lane

    def _skip(self, lane: Lane, index: int) -> int:
        """The next run of a lane that may start although the one before could not."""
        kind = lane.kind
        window_at = -inf if self.hopeless(kind) else kind.window_at
        if self.now + lane.shortest_s <= window_at:
            for later in range(index, len(lane.entries)):
                if self.now + limit_s(lane.entries[later][1].candidate) <= window_at:
                    return later
        return len(lane.entries)

    def _place_of(self, run_id: str | None) -> tuple[int, float, Key] | None:
        queued = None if run_id is None else self.state.queue.runs.get(run_id)
        if queued is None:
            return None
        return queued.line.rank, self._claim(queued.line), queued.key
