"""When the rules of a pool make another pass worth while, though no fact changes until then.

Told in `Plan.next_at`. A moment too many costs a pass; one too few would leave slots with those who should
have given them up. So each moment at which one more holding could be displaced by a waiting run counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import inf

from tarmac.model.cluster import Policy
from tarmac.sched import blocks, turns
from tarmac.sched.fairness import FairClaims
from tarmac.sched.forecast import Held
from tarmac.sched.holders import rung_of
from tarmac.sched.lanes import Queued
from tarmac.sched.order import BATCH, CYCLE, INTERRUPTIBLE, Key
from tarmac.sched.pool_state import PoolState
from tarmac.sched.precedence import Precedence


def clockwork(state: PoolState, now: float) -> float:
    """When a turn is over, or a period of which somebody may expect a block."""
    turns_end = (turns.ends_at(held.holding, state.rules) for held in state.holders.cycle.values())
    at = min((moment for moment in turns_end if moment > now), default=inf)
    if state.holders.interruptible or (INTERRUPTIBLE, None) in state.queue.lines:
        at = min(at, blocks.period_end(state.rules, now))
    return at


def wakes_at(state: PoolState, precedence: Precedence, waiting: Sequence[Queued]) -> float:
    """When one of the waiting runs could displace one more holding than now.

    `waiting` has the first of each lane: those behind it can displace nobody whom it cannot.
    """
    now = precedence.now
    moments = (
        precedence.displaceable_at(queued.candidate, held.holding)
        for held in state.holders.interruptible.values()
        for queued in waiting
    )
    at = min((moment for moment in moments if moment > now), default=inf)
    batch = [queued for queued in waiting if queued.line.rank == BATCH]
    if not state.rules.preemption or len(batch) == 0 == sum(item.line.rank == CYCLE for item in waiting):
        return at
    at = min(at, _unguarded_at(state, waiting, before=at))
    match state.rules.policy:
        case Policy.LEAST_ATTAINED:
            return min(at, _climbs_at(state, batch, before=at))
        case Policy.FAIR_SHARE:
            claims = precedence.claims
            return at if claims is None else min(at, _overdrawn_at(state, claims, batch))
        case _:
            return at


def _unguarded_at(state: PoolState, waiting: Sequence[Queued], *, before: float) -> float:
    """When a run that somebody waiting goes before has had its guaranteed time."""
    anybody = state.rules.policy is Policy.FAIR_SHARE or any(queued.line.rank == CYCLE for queued in waiting)
    first = () if anybody else min(queued.key for queued in waiting if queued.line.rank == BATCH)
    for until, _, held in state.holders.guarded:
        if until >= before:
            break
        if anybody or state.holders.key(held) > first:
            return until
    return inf


def _climbs_at(state: PoolState, batch: Sequence[Queued], *, before: float) -> float:
    """When a run climbs past the rung of somebody waiting, or to it and is ordered after them there."""
    firsts: dict[float, Key] = {}
    for queued in batch:
        rung = rung_of(queued.key)
        firsts[rung] = min(queued.key, firsts.get(rung, queued.key))
    for rung, key in firsts.items():
        for climbs in state.holders.climbing(rung):
            for at, _, held in climbs:
                if at >= before:
                    break
                candidate = held.holding.candidate
                if (
                    rung_of(state.holders.key(held)) == rung
                    or (
                        held.slots,
                        candidate.submitted_at,
                        candidate.run_id,
                    )
                    > key[1:]
                ):
                    before = at
                    break
    return before


def _overdrawn_at(state: PoolState, claims: FairClaims, batch: Sequence[Queued]) -> float:
    """When an entity will have used too much for the next one of those waiting that it has not yet."""
    entities = sorted({queued.line.entity for queued in batch if queued.line.entity is not None})
    floors = sorted((claims.of(entity), entity) for entity in entities)
    at = inf
    for entity, line in state.holders.ready.items():
        if entity is not None:
            standing = claims.standing(entity, min(line, key=_width)[1].slots)
            above = bisect_right(floors, (standing, chr(0x10FFFF)))
            floor = next((floor for floor, other in floors[above:] if other != entity), None)
            if floor is not None:
                at = min(at, claims.reaches_at(entity, floor - standing))
    return at


def _width(entry: tuple[Key, Held]) -> int:
    return entry[1].slots
