"""The decisions of a cycle as data: placements, preemptions and refusals with their reasons.

Made by `cycle`.
"""

from enum import StrEnum

from msgspec import Struct

from tarmac.model.progress import CauseCode, Share
from tarmac.model.resources import Reason, WaitReasons
from tarmac.model.run import Allocation
from tarmac.sched.facts import Holding


class Placement(Struct, frozen=True, kw_only=True):
    """A queued run that starts now on this allocation, valid only while the run still has `seq`.

    `allotted_s` is its promised time in seconds: a turn, or the rest of a block (None: no promise).
    """

    run_id: str
    seq: int
    allocation: Allocation
    allotted_s: float | None = None


class PreemptionReason(StrEnum):
    """Why the scheduler preempts a run."""

    MAKE_WAY = "make_way"  # another run takes its slots
    TURN_OVER = "turn_over"  # its turn as a cycle run has ended
    POOL_CHANGED = "pool_changed"  # a person moved it to another pool
    NODE_LEAVES = "node_leaves"  # a person took its node out of the cluster
    RESERVED = "reserved"  # a reservation of its node for others has begun
    RECLAIMED = "reclaimed"  # a provider takes its rented machine back


class Preemption(Struct, frozen=True, kw_only=True):
    """A live attempt to be preempted; `for_run_id` is the run that takes its slots, if any."""

    run_id: str
    seq: int
    reason: PreemptionReason
    for_run_id: str | None = None


def preemption_of(holding: Holding, reason: PreemptionReason, for_run_id: str | None = None) -> Preemption:
    """The preemption of a run that holds slots."""
    candidate = holding.candidate
    return Preemption(run_id=candidate.run_id, seq=candidate.seq, reason=reason, for_run_id=for_run_id)


class ShareGrant(Struct, frozen=True, kw_only=True):
    """The share of an interruptible run in a period that has begun."""

    run_id: str
    seq: int
    share: Share


class Waiting(WaitReasons, frozen=True, kw_only=True):
    """A queued run that does not start now.

    `explain` makes it on request; a cycle reports only changes. `ahead_first` are the first of those before
    it, `awaits` the runs that have to end before it starts.
    """

    seq: int
    ahead_first: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()


class Refusal(Struct, frozen=True, kw_only=True):
    """A queued run that ends without starting.

    `code` NEVER_FITS: no empty cluster fits it, and `largest` is the biggest request that one would fit.
    `code` BUSY: it does not fit now, and the run may not wait (C10).
    """

    run_id: str
    seq: int
    code: CauseCode
    reasons: tuple[Reason, ...]
    largest: str | None


class Plan(Struct, frozen=True, kw_only=True):
    """The decisions of one cycle. `next_at` is when to plan again without a change of facts (None: never).

    After `shares`, plan again as soon as they are recorded: a cycle that grants shares starts no
    interruptible run, because blocks depend on recorded shares. A queued run that the plan does not name
    still waits; `explain` has the reasons.
    """

    placements: tuple[Placement, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    shares: tuple[ShareGrant, ...] = ()
    next_at: float | None = None
