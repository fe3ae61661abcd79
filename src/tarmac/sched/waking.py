"""When the rules of a pool make another pass worth while, though no fact changes until then.

Told in `Plan.next_at`. A moment too many costs a pass; one too few would leave slots with those who should
have given them up. So each moment at which one more holding could be displaced by a waiting run counts.
"""

from __future__ import annotations

from math import inf

from tarmac.model.cluster import Policy
from tarmac.sched import blocks, turns
from tarmac.sched.forecast import Held
from tarmac.sched.holders import rung_of
from tarmac.sched.lanes import Queued
from tarmac.sched.order import BATCH, CYCLE, INTERRUPTIBLE, Key
from tarmac.sched.pool_state import PoolState
from tarmac.sched.precedence import Precedence, held_key


def clockwork(state: PoolState, now: float) -> float:
    """When a turn is over, or a period of which somebody may expect a block."""
    turns_end = (turns.ends_at(held.holding, state.rules) for held in state.holders.cycle.values())
    at = min((moment for moment in turns_end if moment > now), default=inf)
    if state.holders.interruptible or (INTERRUPTIBLE, None) in state.queue.lines:
        at = min(at, blocks.period_end(state.rules, now))
    return at


def wakes_at(state: PoolState, precedence: Precedence, rank: int, queued: Queued) -> float:
    """When a waiting run could displace one more holding than now."""
    now, candidate = precedence.now, queued.candidate
    moments = [
        precedence.displaceable_at(candidate, held.holding) for held in state.holders.interruptible.values()
    ]
    if rank != INTERRUPTIBLE and state.rules.preemption:
        moments += _batch(state, precedence, rank, queued)
    return min((at for at in moments if at > now), default=inf)


def _batch(state: PoolState, precedence: Precedence, rank: int, queued: Queued) -> list[float]:
    """The next moments at which batch runs stop being guarded, climb, or have used too much."""
    rules, key = state.rules, queued.key
    moments = []
    fair = rules.policy is Policy.FAIR_SHARE
    for until, _, held in state.holders.guarded:
        if until == inf:
            break
        if rank == CYCLE or fair or held_key(held.holding, rules, until) > key:
            moments.append(until)
            break
    if rank == BATCH and fair:
        moments += [
            precedence.ordered_after_at(queued.candidate, min(line, key=_width)[1].holding)
            for line in state.holders.ready.values()
        ]
    if rank == BATCH and rules.policy is Policy.LEAST_ATTAINED:
        for climbs in state.holders.climbing(rung_of(key)):
            after = (at for at, _, held in climbs if held_key(held.holding, rules, at) > key)
            moments.append(next(after, inf))
    return moments


def _width(entry: tuple[Key, Held]) -> int:
    return entry[1].holding.allocation.slots
