"""When a run that does not fit now could start: the board run forward, one ended run after another.

Used by `planning` (which nodes to keep for the head of the queue) and by `explain`. A run ends when its
time limit says so; one without a limit ends some time, later than all that have one. Between those, the
one granted first is taken to end first: a fixed order, so that what a run waits for only ever shrinks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from tarmac.model.spec import Target
from tarmac.sched.admission import Demands
from tarmac.sched.board import PoolBoard
from tarmac.sched.facts import Holding
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
    board = pool.copy()
    view = View.of(board, target, use_kept=True)
    awaited: list[Release] = []
    at = now
    parts = fit(demands, view, uneven=uneven)
    for release in upcoming:
        if parts is not None:
            break
        seats = [seat for seat in release.holding.allocation.seats if seat.node in board.spaces]
        if not seats:
            continue
        for seat in seats:
            board.release(seat)
        at = release.at
        awaited.append(release)
        view = View.of(board, target, use_kept=True)
        parts = fit(demands, view, uneven=uneven)
    if parts is None:
        return None
    nodes = tuple(dict.fromkeys(part.space.node.name for part in parts))
    return Forecast(at, nodes, tuple(item for item in awaited if _on(item, nodes)))


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
