"""What a pool's policy brings into a cycle, and what is due before its queue is asked. Called by `cycle`.

Here the policies meet the cycle: what has been used (fair share), who may preempt whom, turns that are over,
shares of a period that are due, and how long a placement is meant to last.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from tarmac.model.cluster import Pool
from tarmac.model.spec import Mode
from tarmac.sched.cycle.next_wakeup import wakes_at
from tarmac.sched.cycle.pool_cycle import Due
from tarmac.sched.cycle.preempting import PoolPreemptor
from tarmac.sched.decisions import Preemption, PreemptionReason
from tarmac.sched.facts import Candidate
from tarmac.sched.index.forecast import Held
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.policies import blocks, turns
from tarmac.sched.policies.blocks import Member
from tarmac.sched.policies.order import BATCH, CYCLE, INTERRUPTIBLE
from tarmac.sched.policies.precedence import Precedence

_PASSABLE = {True: frozenset({BATCH, INTERRUPTIBLE}), False: frozenset({INTERRUPTIBLE})}
"""The ranks for whose blocked runs no nodes are kept, with preemption and without."""


def due_in_pool(state: PoolState, now: float, *, at_home: Callable[[Held], bool]) -> Due:
    """The beginning of a cycle over one pool; `at_home`: whether it is the home of one who holds slots."""
    state.refresh(now)
    state.holders.advance(now)
    rules, cycle = state.rules, state.holders.cycle
    past_usage = state.fair.past_usage(now)
    if not _timed(state):
        return Due(past_usage=past_usage, passable=_PASSABLE[False], allotted_s=_allotted(rules, now))
    over = [cycle[run_id] for run_id in sorted(cycle) if turns.ends_at(cycle[run_id].holding, rules) <= now]
    members = _members(state)
    due = blocks.due(members, rules, now)
    precedence = Precedence(rules, now, past_usage)
    preemptor = None
    if rules.preemption or state.holders.interruptible or state.leaving or over:
        leaving = [*over, *(state.holdings[run_id] for run_id in sorted(state.leaving))]
        returning = [held for held in leaving if turns.comes_back(held.holding) and at_home(held)]
        preemptor = PoolPreemptor(state, precedence, leaving=over, returning=returning)
    return Due(
        preemptions=tuple(
            Preemption(run_id=held.ends[2], seq=held.holding.candidate.seq, reason=PreemptionReason.TURN_OVER)
            for held in over
        ),
        shares=blocks.grants(members, rules, now) if due else (),
        deferred_modes=frozenset({INTERRUPTIBLE}) if due else frozenset(),
        passable=_PASSABLE[rules.preemption],
        past_usage=past_usage,
        preemptor=preemptor,
        allotted_s=_allotted(rules, now),
        wakes_at=lambda current: min(
            wakes_at(current, precedence), inf if preemptor is None else preemptor.again_at
        ),
    )


def _timed(state: PoolState) -> bool:
    """Whether anybody in a pool gives way, or has turns or blocks; if not, cycles are many and alike."""
    holders, mode_queues = state.holders, state.queue.mode_queues
    return bool(
        state.rules.preemption
        or state.leaving
        or holders.cycle
        or holders.interruptible
        or (CYCLE, None) in mode_queues
        or (INTERRUPTIBLE, None) in mode_queues
    )


def _members(state: PoolState) -> list[Member]:
    """The interruptible runs of a pool, queued and holding."""
    mode_queue = state.queue.mode_queues.get((INTERRUPTIBLE, None))
    if mode_queue is None and not state.holders.interruptible and not state.leaving:
        return []
    members = [] if mode_queue is None else [Member(queued.candidate) for _, queued in mode_queue.every()]
    leaving = (state.holdings[run_id] for run_id in sorted(state.leaving))
    holding = [held for held in leaving if held.holding.candidate.mode is Mode.INTERRUPTIBLE]
    holding += state.holders.interruptible.values()
    return [*members, *(Member(held.holding.candidate, held.holding) for held in holding)]


def _allotted(rules: Pool, now: float) -> Callable[[Candidate], float | None]:
    """How long a run that starts now is meant to hold its slots."""

    def allotted_s(candidate: Candidate) -> float | None:
        if candidate.mode is Mode.CYCLE:
            return rules.turn_s
        if candidate.mode is Mode.INTERRUPTIBLE:
            return blocks.allotted_s(candidate, rules, now)
        return None

    return allotted_s
