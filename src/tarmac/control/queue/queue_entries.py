"""The queue as data: pages of lines, one for each run. Made by `queueing` and `delegated_queue`."""

from __future__ import annotations

from dataclasses import dataclass

from tarmac.model.cluster import Policy
from tarmac.model.dependency import AwaitedRun
from tarmac.model.lifecycle import RunState
from tarmac.model.native import NativeStatus
from tarmac.model.spec import Mode
from tarmac.sched import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """One line of the queue of a pool; `number` counts from 1 in scheduling order, holdings included.

    `policy` is the pool's: it decides whether `priority` or `weight` counts. `slots_acquired` of
    `slots_needed` are held now. `estimate` is the likely start of a queued run (None: it holds its slots),
    `retry_at` the end of the pause after a failure; `native` is the status in the queue of a cluster that has
    its own; `awaits` are the runs that have to end before it may start.
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
    retry_at: float | None = None
    native: NativeStatus | None = None
    awaits: tuple[AwaitedRun, ...] = ()
    array_id: str | None = None
    array_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePage:
    """A part of the queue of a pool; `total` counts all runs of the requested queue."""

    cluster: str
    pool: str
    total: int
    entries: tuple[QueueEntry, ...]
