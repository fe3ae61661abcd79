"""The queue of each pool. Made in `server.records.queue`, read by the client."""

from __future__ import annotations

from typing_extensions import TypedDict

from tarmac.api.runs import AwaitedRun, NativeStatus


class Estimate(TypedDict):
    """The likely start of a queued run, and its latest start; null: not known."""

    start_at: float | None
    latest_at: float | None
    basis: str


class QueueEntry(TypedDict):
    """One line of the queue of a pool. `number` counts from 1, in scheduling order."""

    number: int
    id: str
    name: str
    mode: str
    priority: int
    weight: float
    submitted_at: float
    slots_acquired: int
    slots_needed: int
    state: str
    user: str
    project: str
    retry_at: float | None
    awaits: list[AwaitedRun]
    array_id: str | None
    array_index: int | None
    estimate: Estimate | None
    native: NativeStatus | None


class QueuePool(TypedDict):
    """The queue of one pool, or a part of it, with the rules that explain its order.

    `total` counts all its requested runs, listed or not.
    """

    cluster: str
    pool: str
    policy: str
    preemption: bool
    total: int
    runs: list[QueueEntry]
