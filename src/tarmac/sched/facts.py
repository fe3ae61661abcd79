"""What the scheduler is told: the `Snapshot`. Built by `control.mirror`, and by simulators.

The seam is final: policies to come (fair share, cycle, interruptible) read fields that are here already.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tarmac.model.cluster import Node, Pool
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation
from tarmac.model.spec import Mode, Queueing, Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """What one role asks for: `replicas` copies of `each`, or `slots` in all (split over nodes evenly).

    Exactly one of `replicas` and `slots` is set. With `slots`, `each.slot_type` still narrows the type.
    """

    role: str
    replicas: int | None
    slots: int | None
    each: Resources

    @property
    def empty(self) -> bool:
        """Whether nothing is asked for: its replicas share one node and do not count as using it (C3)."""
        return not self.slots and self.each.empty


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A queued run as the scheduler sees it. `seq` is the run's version the decision will be guarded by.

    Candidates that ask for the same may share one `demands` and one `target` object: passes are quicker then.
    `attained_slot_s` is what earlier attempts used; `position` a place given by a person (None: by
    submission); bigger `priority` is sooner.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """A run that occupies slots: its facts as a candidate, what it holds, and how far it got.

    `leaving` is true once it has been asked to pause, stop or give way: its slots come free soon.
    """

    candidate: Candidate
    allocation: Allocation
    granted_at: float
    started_at: float | None
    checkpoint_at: float | None
    leaving: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything one pass of the scheduler decides on.

    `usage_slot_s` maps owner and project names to decayed slot-seconds (fair share).
    """

    pools: tuple[Pool, ...]
    nodes: tuple[Node, ...]
    queue: tuple[Candidate, ...]
    holdings: tuple[Holding, ...]
    usage_slot_s: Mapping[str, float] = field(default_factory=dict)
