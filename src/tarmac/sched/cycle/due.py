"""What a pool's policy brings into a cycle, and what is due before its queue is asked. Called by `cycle`.

Here the policies meet the cycle: what has been used (fair share), who may preempt whom, turns that are over,
shares of a period that are due, and how long a placement is meant to last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tarmac.model.cluster import Pool
from tarmac.model.spec import Mode
from tarmac.sched.cycle.preempting import Preemptor
from tarmac.sched.decisions import Preemption, PreemptionReason, ShareGrant
from tarmac.sched.facts import Candidate
from tarmac.sched.index.forecast import Holder
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.policies import blocks, turns
from tarmac.sched.policies.blocks import Member
from tarmac.sched.policies.fairness import PastUsage
from tarmac.sched.policies.order import BATCH, CYCLE, INTERRUPTIBLE
from tarmac.sched.policies.precedence import Precedence

_PASSABLE = {True: frozenset({BATCH, INTERRUPTIBLE}), False: frozenset({INTERRUPTIBLE})}
"""The ranks for whose blocked runs no nodes are kept, with preemption and without."""


@dataclass(slots=True, kw_only=True)
class Due:
    """What a pool decides before its queue is asked, and what its policy brings into the cycle.

    `preemptions` and `shares` are due whoever waits; runs of the modes whose ranks are in `deferred_modes` do
    not start in this cycle; for blocked runs of those in `passable` no nodes are kept, because they may
    preempt whoever passes them. `past_usage` has what entities used, under fair share; `precedence` who may
    preempt whom, where anybody is preempted or has turns or blocks.
    """

    preemptions: tuple[Preemption, ...] = ()
    shares: tuple[ShareGrant, ...] = ()
    deferred_modes: frozenset[int] = frozenset()
    passable: frozenset[int] = frozenset()
    past_usage: PastUsage | None = None
    preemptor: Preemptor | None = None
    precedence: Precedence | None = None


def due_in_pool(state: PoolState, now: float, *, at_home: Callable[[Holder], bool]) -> Due:
    """The beginning of a cycle over one pool; `at_home`: whether it is the home of one who holds slots."""
    state.refresh(now)
    state.holders.advance(now)
    rules, cycle = state.rules, state.holders.cycle
    past_usage = state.fair.past_usage(now)
    if not _timed(state):
        return Due(past_usage=past_usage, passable=_PASSABLE[False])
    over = [cycle[run_id] for run_id in sorted(cycle) if turns.ends_at(cycle[run_id].holding, rules) <= now]
    members = _members(state)
    due = blocks.due(members, rules, now)
    precedence = Precedence(rules, now, past_usage)
    preemptor = None
    if rules.preemption or state.holders.interruptible or state.leaving or over:
        leaving = [*over, *(state.holdings[run_id] for run_id in sorted(state.leaving))]
        returning = [holder for holder in leaving if turns.comes_back(holder.holding) and at_home(holder)]
        preemptor = Preemptor(state, precedence, leaving=over, returning=returning)
    return Due(
        preemptions=tuple(
            Preemption(
                run_id=holder.ends[2], seq=holder.holding.candidate.seq, reason=PreemptionReason.TURN_OVER
            )
            for holder in over
        ),
        shares=blocks.grants(members, rules, now) if due else (),
        deferred_modes=frozenset({INTERRUPTIBLE}) if due else frozenset(),
        passable=_PASSABLE[rules.preemption],
        past_usage=past_usage,
        preemptor=preemptor,
        precedence=precedence,
    )


def allotted_s(candidate: Candidate, rules: Pool, now: float) -> float | None:
    """How long a run that starts now is meant to hold its slots (None: as long as it takes)."""
    if candidate.mode is Mode.CYCLE:
        return rules.turn_s
    return blocks.allotted_s(candidate, rules, now) if candidate.mode is Mode.INTERRUPTIBLE else None


def _timed(state: PoolState) -> bool:
    """Whether anybody in a pool may be preempted, or has turns or blocks; if not, cycles are many and
    alike.
    """
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
    holding = [holder for holder in leaving if holder.holding.candidate.mode is Mode.INTERRUPTIBLE]
    holding += state.holders.interruptible.values()
    return [*members, *(Member(holder.holding.candidate, holder.holding) for holder in holding)]
