"""When a run that does not fit now could start: the board run forward, one ended run after another.

Used by `planning` (which nodes to keep for the head of the queue) and by `explain`. A run ends when its
time limit says so; one without a limit ends some time, later than all that have one. Between those, the
one granted first is taken to end first: a fixed order, so that what a run waits for only ever shrinks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from tarmac.model.run import Seat
from tarmac.model.spec import Target
from tarmac.sched.admission import Demands
from tarmac.sched.board import PoolBoard
from tarmac.sched.facts import Holding
from tarmac.sched.fitting import Part
from tarmac.sched.gangs import fit
from tarmac.sched.view import View


@dataclass(frozen=True, slots=True)
class Release:
    """A run that gives back what it holds at `at` (inf: not known when)."""

    at: float
    holding: Holding


@dataclass(frozen=True, slots=True)
class Forecast:
    """A run could start at `at` (inf: not known when) on `nodes`, once those `awaited` have ended."""

    at: float
    nodes: tuple[str, ...]
    awaited: tuple[Release, ...]


def releases(holdings: Iterable[Holding], now: float) -> list[Release]:
    """When each holding ends, the soonest first."""
    found = [Release(_ends_at(holding, now), holding) for holding in holdings]
    return sorted(found, key=lambda item: (item.at, item.holding.granted_at, item.holding.candidate.run_id))


def soonest(
    demands: Demands,
    target: Target,
    *,
    uneven: bool,
    pool: PoolBoard,
    upcoming: Iterable[Release],
    now: float,
) -> Forecast | None:
    """The first moment at which the pool could hold this; None if not even when everybody has left."""
    board = _Future(pool, upcoming)

    def fits_after(ended: int) -> bool:
        return board.parts(demands, target, ended=ended, uneven=uneven) is not None

    reach = 1
    while reach < len(board.releases) and not fits_after(reach):
        reach *= 2
    ended = bisect_left(range(min(reach, len(board.releases))), True, key=fits_after)
    parts = board.parts(demands, target, ended=ended, uneven=uneven)
    if parts is None:
        return None
    nodes = tuple(dict.fromkeys(part.space.node.name for part in parts))
    awaited = board.releases[:ended]
    return Forecast(
        at=awaited[-1].at if awaited else now,
        nodes=nodes,
        awaited=tuple(release for release in awaited if _on(release, nodes)),
    )


class _Future:
    """A scratch board that can be moved to after any number of releases, back and forth."""

    def __init__(self, pool: PoolBoard, upcoming: Iterable[Release]) -> None:
        self._board = pool.copy()
        self._ended = 0
        self._seats: list[list[Seat]] = []
        self.releases: list[Release] = []
        for release in upcoming:
            seats = [seat for seat in release.holding.allocation.seats if seat.node in pool.spaces]
            if seats:
                self.releases.append(release)
                self._seats.append(seats)

    def parts(self, demands: Demands, target: Target, *, ended: int, uneven: bool) -> list[Part] | None:
        """How this fits once the first `ended` releases have happened."""
        for seats in self._seats[self._ended : ended]:
            for seat in seats:
                self._board.release(seat)
        for seats in self._seats[ended : self._ended]:
            for seat in seats:
                self._board.hold(seat)
        self._ended = ended
        return fit(demands, View.of(self._board, target, use_kept=True), uneven=uneven)


def _ends_at(holding: Holding, now: float) -> float:
    if holding.leaving:
        return now
    limit_s = holding.candidate.time_limit_s
    if limit_s is None:
        return inf
    started_at = now if holding.started_at is None else holding.started_at
    return max(now, started_at + limit_s)


def _on(release: Release, nodes: tuple[str, ...]) -> bool:
    return any(seat.node in nodes for seat in release.holding.allocation.seats)
