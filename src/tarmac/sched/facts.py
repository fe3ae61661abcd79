"""What the scheduler is told: the facts a `Ledger` is kept up to date with, or a whole `Snapshot` of them.

Made by `control.facts`, and by tests.
"""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.model.cluster import Node, Pool
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation, Share
from tarmac.model.spec import DEFAULT_RAPID_CYCLES, Mode, Queueing, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one role asks for: `replicas` copies of `each`, or `slots` in all (split over nodes evenly).

    Exactly one of `replicas` and `slots` is set. With `slots`, `each.slot_type` still narrows the type, and
    `uneven` allows an unequal split where no equal one fits even the empty cluster; `nodes` is on how many
    they must be split (None: as few as it takes).
    """

    role: str
    replicas: int | None
    slots: int | None
    each: Resources
    uneven: bool = False
    nodes: int | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for: its replicas share one node and do not count as using it (C3)."""
        return not self.slots and self.each.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A queued run as the scheduler sees it. `seq` is the run's version the decision will be guarded by.

    Candidates that ask for the same may share one `demands` and one `target` object: cycles are quicker then.
    `attained_slot_s` is what ended attempts used and `ran_s` how much of `time_limit_s` they spent;
    `position` a place given by a person, on the scale of submission times (None: by submission); bigger
    `priority` is sooner; `pool` the one a person moved it to (None: as the target says). `turns_left` is how
    many turns a cycle run has left, the one it is having among them. `not_before` is when it may start at the
    earliest: it failed, and rests (None: at once). `awaits` are the ids of runs that have to end before;
    `group` is its array or experiment, and `over_limit` why it has to wait for others of that.
    """

    run_id: str
    seq: int
    demands: tuple[Demand, ...]
    target: Target
    mode: Mode
    queueing: Queueing
    priority: int
    weight: float
    position: float | None
    submitted_at: float
    queued_at: float
    owner: str
    project: str
    attempts: int
    attained_slot_s: float
    time_limit_s: float | None
    name: str = ""
    ran_s: float = 0.0
    pool: str | None = None
    share: Share | None = None
    turns_left: int = DEFAULT_RAPID_CYCLES
    not_before: float | None = None
    awaits: tuple[str, ...] = ()
    group: str | None = None
    over_limit: str | None = None

    @property
    def label(self) -> str:
        """What people are told: its name and id, `digits (r1)`."""
        return f"{self.name} ({self.run_id})" if self.name else self.run_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A run that occupies slots: its facts as a candidate, what it holds, and how far it got.

    `checkpoint_at` is when this attempt last left a whole checkpoint. `leaving` is true once it was asked (at
    `leave_requested_at`) to pause, stop or be preempted: its slots come free soon, within `grace_s`.
    `requeues` is true if it then queues again: it is preempted, and neither paused nor stopped. `allotted_s`
    is the time it was promised when it was placed (None: nothing).
    """

    candidate: Candidate
    allocation: Allocation
    granted_at: float
    started_at: float | None
    checkpoint_at: float | None
    leaving: bool
    grace_s: float = 0.0
    requeues: bool = False
    leave_requested_at: float | None = None
    allotted_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Slot-seconds that ended attempts used in a pool around `at`, divided by the weight of their runs.

    Additive: several records of the same owner and project count together, each decayed from its `at`.
    `group` is the array or experiment that the runs are of (None: neither).
    """

    cluster: str
    pool: str
    owner: str
    project: str
    at: float
    slot_s: float
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one cycle of the scheduler decides on. A pool that is not in `pools` has the usual rules."""

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    queue: tuple[Candidate, ...]
    holdings: tuple[Holding, ...]
    usage: tuple[Usage, ...] = ()


def requested_slots(demands: tuple[Demand, ...]) -> int:
    """How many slots a whole run asks for."""
    return sum(
        demand.slots if demand.slots is not None else (demand.replicas or 0) * demand.each.slots
        for demand in demands
    )
