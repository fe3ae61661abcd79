"""The queue as people see and change it: `tarmac queue`, its `set` and its `move`. Called by `service`.

A list of changes is checked whole, as if applied one after another, before anything is applied; then all of
them are, in one transaction, or none.
"""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.model.cluster import Policy
from tarmac.model.lifecycle import RunState
from tarmac.model.spec import Mode
from tarmac.sched import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One line of the queue of a pool; `number` counts from 1 in scheduling order, holdings included.

    `policy` is the pool's: it says whether `priority` or `weight` counts. `slots_acquired` of `slots_needed`
    are held now. `estimate` says when a queued run is likely to start (None: it holds its slots).
    """

    number: int
    run_id: str
    name: str
    mode: Mode
    priority: int
    weight: float
    policy: Policy
    submitted_at: float
    slots_acquired: int
    slots_needed: int
    state: RunState
    user: str
    project: str
    cluster: str
    pool: str
    estimate: Estimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueChange:
    """One change of the place of the run that `reference` means (an id, a name, a prefix of an id).

    Exactly one of the others is set. `ahead_of` and `behind_of` refer to another run; `top` is ahead of the
    first batch run of its pool.
    """

    reference: str
    priority: int | None = None
    weight: float | None = None
    pool: str | None = None
    ahead_of: str | None = None
    behind_of: str | None = None
    top: bool = False
