"""The turns or blocks that a waiting cycle or interruptible run may expect. Used by `explain`."""

from __future__ import annotations

from collections.abc import Iterator

from tarmac.model.spec import Mode
from tarmac.sched.explain.messages import counted, duration
from tarmac.sched.facts import Candidate
from tarmac.sched.index.pool_state import PoolState
from tarmac.sched.policies.blocks import Member, Tier, left_s, period_end, tier
from tarmac.sched.policies.order import CYCLE


def expectations(candidate: Candidate, home: PoolState, now: float) -> Iterator[str]:
    """The expectations as sentences; none for a batch run."""
    match candidate.mode:
        case Mode.CYCLE:
            yield from _turns(candidate, home)
        case Mode.INTERRUPTIBLE:
            yield _block(candidate, home, now)
            yield f"The next period begins in {duration(period_end(home.rules, now) - now)}."
        case _:
            return


def _turns(candidate: Candidate, home: PoolState) -> Iterator[str]:
    """The number of cycle runs with their turn first: the holding ones, and those before it in line."""
    own = home.queue.runs[candidate.run_id].key
    waiting = sum(
        key < own
        for mode_queue in home.queue.mode_queues.values()
        if mode_queue.rank == CYCLE
        for key, _ in mode_queue.every()
    )
    holding = sum(holder.holding.candidate.mode is Mode.CYCLE for holder in home.holdings.values())
    if holding:
        yield f"{counted(holding, 'cycle run')} {'has its turn' if holding == 1 else 'have their turns'} now."
    if waiting:
        yield f"{counted(waiting, 'cycle run')} in line before it."
    yield f"A turn lasts {duration(home.rules.turn_s)}."


def _block(candidate: Candidate, home: PoolState, now: float) -> str:
    """The promised time of the run in this period, and the rest of it."""
    share = candidate.share
    left = duration(left_s(candidate, home.rules, now))
    match tier(Member(candidate), home.rules, now):
        case Tier.OWED if share is not None:
            owed = f", and {duration(share.credit_s)} of credit" if share.credit_s else ""
            return f"Of its block of {duration(share.allotted_s)} in this period it has {left} left{owed}."
        case Tier.CREDIT:
            return f"Its block of this period is used, and {left} of its credit is left."
        case _ if share is None:
            return (
                "It came after this period was shared out: until the next it starts where no other run does."
            )
        case _:
            return "Its block of this period is used: until the next it starts where no other run does."
