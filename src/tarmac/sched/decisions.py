"""What one cycle of the scheduler decides, as data: placements, preemptions, every "no" with its reason."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tarmac.model.run import Allocation, CauseCode, Share


class ReasonCode(StrEnum):
    """Why a node (or a whole cluster) does not take a run now."""

    NO_SUCH_CLUSTER = "no_such_cluster"
    NO_NODES = "no_nodes"  # the cluster has not reported any node yet
    OTHER_POOL = "other_pool"
    OTHER_SHARD = "other_shard"
    OTHER_HOSTNAME = "other_hostname"
    OTHER_SLOT_TYPE = "other_slot_type"
    NODE_DRAINED = "node_drained"
    NODE_DOWN = "node_down"
    NODE_LOST = "node_lost"
    TOO_SMALL = "too_small"  # even empty, it could not hold one replica
    BUSY = "busy"  # it could, but others hold it
    BEHIND = "behind"  # free enough, but kept for a run ordered before
    GANG = "gang"  # fits a part of the run, and all or none are placed
    RESTS = "rests"  # it failed, and pauses before its next try
    AWAITS = "awaits"  # other runs have to end before
    GROUP_LIMIT = "group_limit"  # the others of its array or experiment hold as much as all may


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why one node does not do; `node` None speaks of the run as a whole. `text` is for people."""

    code: ReasonCode
    text: str
    node: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """A queued run that starts now, on this allocation; valid only while the run still has `seq`.

    `allotted_s` is how long it is promised to it: a turn, or what is left of a block (None: nothing is).
    """

    run_id: str
    seq: int
    allocation: Allocation
    allotted_s: float | None = None


class PreemptionReason(StrEnum):
    """Why a run is preempted."""

    MAKE_WAY = "make_way"  # another run takes its slots
    TURN_OVER = "turn_over"  # its turn as a cycle run has ended
    POOL_CHANGED = "pool_changed"  # a person moved it to another pool
    NODE_LEAVES = "node_leaves"  # a person took its node out of the cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """A live attempt to be preempted; `for_run_id` is the run that takes its slots, if there is one."""

    run_id: str
    seq: int
    reason: PreemptionReason
    for_run_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGrant:
    """The share of an interruptible run in a period that has begun."""

    run_id: str
    seq: int
    share: Share


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A queued run that does not start now: why, how many are ordered before it, what would unblock it.

    Made on request (`explain`), not by every cycle: a cycle says only what changes. `ahead_first` are the
    first of those before it, `awaits` the runs that have to end before it starts.
    """

    run_id: str
    seq: int
    ahead: int
    reasons: tuple[Reason, ...]
    unblocked_by: str
    ahead_first: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A queued run that is to end without starting.

    `code` NEVER_FITS: no empty cluster here could hold it; `largest` is the biggest request that one could.
    `code` BUSY: it could, but not now, and the run may not wait (C10).
    """

    run_id: str
    seq: int
    code: CauseCode
    reasons: tuple[Reason, ...]
    largest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one cycle decided. `next_at`: when to plan again even if no fact changes (None: never).

    With `shares`, plan again as soon as they are recorded: a cycle that grants shares starts no interruptible
    run, because blocks are given out on recorded shares only. A queued run that is not named here goes on
    waiting; `explain` says why.
    """

    placements: tuple[Placement, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    shares: tuple[ShareGrant, ...] = ()
    next_at: float | None = None
