"""The facts of the scheduler: the updates of a `Ledger`, or a whole `Snapshot`.

Made by `control` and by tests.
"""

from msgspec import Struct

from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import Node, Pool
from tarmac.model.lifecycle import Mode
from tarmac.model.people.limits import Cap, SlotUse
from tarmac.model.progress import Share
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation
from tarmac.model.spec import DEFAULT_RAPID_CYCLES, Queueing, Target


class Demand(Struct, frozen=True, kw_only=True):
    """The request of one role: `replicas` copies of `each`, or `slots` in all (split over nodes evenly).

    Exactly one of `replicas` and `slots` is set. With `slots`, `each.slot_type` still narrows the type;
    `uneven` allows an unequal split if no equal one fits even the empty cluster; `nodes` is the number of
    nodes to split them over (None: as few as possible).
    """

    role: str
    replicas: int | None
    slots: int | None
    each: Resources
    uneven: bool = False
    nodes: int | None = None

    @property
    def empty(self) -> bool:
        """Whether it requests nothing: its replicas share one node and do not count as using it (C3)."""
        return not self.slots and self.each.empty


class Candidate(Struct, frozen=True, kw_only=True):
    """A queued run as the scheduler sees it. `seq` is the version of the run that guards the decision.

    Candidates with equal requests may share one `demands` and one `target` object, which makes cycles
    quicker. `attained_slot_s` is the usage of ended attempts and `ran_s` how much of `time_limit_s` they
    spent. `position` is a place set by a person, on the scale of submission times (None: by submission). A
    bigger `priority` is sooner. `pool` is the one a person moved it to (None: as in `target`). `turns_left`
    counts the turns of a cycle run, the present one included. `not_before` is the earliest start after a
    failure (None: at once). `awaits` are the ids of runs that have to end before. `group` is its array or
    experiment, and `over_limit` the reason why it waits for other members. `guess_slot_s` is what similar
    runs used per end, made when it was queued (None: too few are known).
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
    guess_slot_s: float | None = None

    @property
    def label(self) -> str:
        """Its name and id for people: `digits (r1)`."""
        return f"{self.name} ({self.run_id})" if self.name else self.run_id


class Holding(Struct, frozen=True, kw_only=True):
    """A run that occupies slots: its facts as a candidate, its allocation and its progress.

    `checkpoint_at` is when this attempt last left a whole checkpoint. `leaving` is true after a request (at
    `leave_requested_at`) to pause, stop or be preempted: its slots come free within `grace_s`. `requeues` is
    true if it then queues again, which is so only for a preemption. `allotted_s` is the time promised at its
    placement (None: no promise).
    """

    candidate: Candidate
    allocation: Allocation
    granted_at: float
    started_at: float | None = None
    checkpoint_at: float | None = None
    leaving: bool = False
    grace_s: float = 0.0
    requeues: bool = False
    leave_requested_at: float | None = None
    allotted_s: float | None = None


class Snapshot(Struct, frozen=True, kw_only=True):
    """All facts of one cycle of the scheduler. A pool that is not in `pools` has the default rules.

    `usage` is additive: each record decays from its `hour_at`. `elsewhere` are slots of runs that are no
    holdings, which count under the `caps` as well.
    """

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    queue: tuple[Candidate, ...]
    holdings: tuple[Holding, ...]
    usage: tuple[UsageBucket, ...] = ()
    caps: tuple[Cap, ...] = ()
    elsewhere: tuple[SlotUse, ...] = ()


def requested_slots(demands: tuple[Demand, ...]) -> int:
    """The slots that a whole run requests."""
    return sum(
        demand.slots if demand.slots is not None else (demand.replicas or 0) * demand.each.slots
        for demand in demands
    )
