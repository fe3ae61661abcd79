"""The policy of a pool in a cycle, and what is due before its queue is walked. Called by `cycle`.

This module connects the policies to the cycle: past usage (fair share), precedence, turns that are over,
shares of a new period, and the time allotted to a placement.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from tarmac.model.cluster import Pool
from tarmac.model.lifecycle import Mode
from tarmac.sched.cycle.preempting import Preemptor
from tarmac.sched.decisions import Preemption, PreemptionReason, ShareGrant, preemption_of
from tarmac.sched.facts import Candidate, Holding
from tarmac.sched.index.forecast import Holder
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.policies import blocks
from tarmac.sched.policies.blocks import Member
from tarmac.sched.policies.fairness import PastUsage
from tarmac.sched.policies.order import BATCH, CYCLE, INTERRUPTIBLE
from tarmac.sched.policies.precedence import Precedence

_PASSABLE = {True: frozenset({BATCH, INTERRUPTIBLE}), False: frozenset({INTERRUPTIBLE})}
"""Ranks whose blocked runs get no reserved nodes, with preemption and without."""


@dataclass(slots=True, kw_only=True)
class Due:
    """The decisions of a pool before its queue is walked, and its policy in this cycle.

    `preemptions` and `shares` are due whichever runs wait. Runs of the ranks in `deferred_modes` do not start
    in this cycle. Blocked runs of the ranks in `passable` get no reserved nodes, because they may preempt the
    runs that pass them. `past_usage` is set under fair share. `precedence` is set in pools with preemption,
    turns or blocks.
    """

    preemptions: tuple[Preemption, ...] = ()
    shares: tuple[ShareGrant, ...] = ()
    deferred_modes: frozenset[int] = frozenset()
    passable: frozenset[int] = frozenset()
    past_usage: PastUsage | None = None
    preemptor: Preemptor | None = None
    precedence: Precedence | None = None


def due_in_pool(state: PoolState, now: float, *, at_home: Callable[[Holder], bool]) -> Due:
    """Start a cycle over one pool. `at_home` tells whether a holder is in its home pool."""
    state.refresh(now)
    state.holders.advance(now)
    rules, cycle = state.rules, state.holders.cycle
    past_usage = state.fair.past_usage(now)
    if not _timed(state):
        return Due(past_usage=past_usage, passable=_PASSABLE[False])
    over = [cycle[run_id] for run_id in sorted(cycle) if turn_ends_at(cycle[run_id].holding, rules) <= now]
    members = _members(state)
    due = blocks.due(members, rules, now)
    precedence = Precedence(rules, now, past_usage)
    preemptor = None
    if rules.preemption or state.holders.interruptible or state.leaving or over:
        leaving = [*over, *(state.holdings[run_id] for run_id in sorted(state.leaving))]
        returning = [holder for holder in leaving if _comes_back(holder.holding) and at_home(holder)]
        preemptor = Preemptor(state, precedence, leaving=over, returning=returning)
    return Due(
        preemptions=tuple(preemption_of(holder.holding, PreemptionReason.TURN_OVER) for holder in over),
        shares=blocks.grants(members, rules, now) if due else (),
        deferred_modes=frozenset({INTERRUPTIBLE}) if due else frozenset(),
        passable=_PASSABLE[rules.preemption],
        past_usage=past_usage,
        preemptor=preemptor,
        precedence=precedence,
    )


def allotted_s(candidate: Candidate, rules: Pool, now: float) -> float | None:
    """The seconds for which a run that starts now is meant to hold its slots (None: no limit)."""
    if candidate.mode is Mode.CYCLE:
        return rules.turn_s
    return blocks.allotted_s(candidate, rules, now) if candidate.mode is Mode.INTERRUPTIBLE else None


def _timed(state: PoolState) -> bool:
    """Whether a pool may have preemption, turns or blocks. Otherwise its many, similar cycles skip them."""
    holders, plain = state.holders, state.queue.plain
    return bool(
        state.rules.preemption
        or state.leaving
        or holders.cycle
        or holders.interruptible
        or CYCLE in plain
        or INTERRUPTIBLE in plain
    )


def _members(state: PoolState) -> list[Member]:
    """The interruptible runs of a pool, queued and holding."""
    mode_queue = state.queue.plain.get(INTERRUPTIBLE)
    if mode_queue is None and not state.holders.interruptible and not state.leaving:
        return []
    members = [] if mode_queue is None else [Member(queued.candidate) for _, queued in mode_queue.every()]
    leaving = (state.holdings[run_id] for run_id in sorted(state.leaving))
    holding = [holder for holder in leaving if holder.holding.candidate.mode is Mode.INTERRUPTIBLE]
    holding += state.holders.interruptible.values()
    return [*members, *(Member(holder.holding.candidate, holder.holding) for holder in holding)]


def turn_ends_at(holding: Holding, pool: Pool) -> float:
    """When the turn of a holding ends (inf: it has none, has not begun it, or is leaving).

    A turn (I11) ends even if no run waits: the point of a cycle run is to be paused and resumed. Cycle runs
    go before all others, so a run with turns left takes its slots again at once, unless another cycle run is
    before it.
    """
    if holding.candidate.mode is not Mode.CYCLE or holding.leaving or holding.started_at is None:
        return inf
    return holding.started_at + pool.turn_s


def _comes_back(holding: Holding) -> bool:
    """Whether a cycle run returns to its line after its turn."""
    has_turns = holding.candidate.mode is Mode.CYCLE and holding.candidate.turns_left > 1
    return has_turns and (holding.requeues or not holding.leaving)
