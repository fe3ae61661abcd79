"""The queue of each pool. Made by `control.queue` and in `server.records.queue`, read by the client."""

from collections.abc import Mapping

from msgspec import Struct, field

from tarmac.model.array import AwaitedRun
from tarmac.model.cluster import Policy
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import NativeStatus


class Estimate(Struct, frozen=True, kw_only=True):
    """The likely start of a queued run, and its latest start; None: not known.

    `basis` is a value of `sched.EstimateBasis`: `time limits`, `history`, `cluster` (it has a queue of its
    own, which reports the start), `unknown` or `too far`.
    """

    start_at: float | None
    latest_at: float | None
    basis: str


class QueueEntry(Struct, frozen=True, kw_only=True):
    """One line of the queue of a pool. `number` counts from 1, in scheduling order, holdings included.

    `slots_acquired` of `slots_needed` are held now. `estimate` is the likely start of a queued run (None: it
    holds its slots), `retry_at` the end of the pause after a failure; `native` is the status in the queue of
    a cluster that has its own; `awaits` are the runs that have to end before it may start.

    The line of a whole array has the id of the array, the sums of slots, and the number of `members` in each
    state, in any pool; its other fields are those of the first member, and `estimate` that of the next one to
    start.
    """

    number: int
    id: str
    name: str
    mode: Mode
    priority: int
    weight: float
    submitted_at: float
    slots_acquired: int
    slots_needed: int
    state: RunState
    user: str
    project: str
    retry_at: float | None = None
    array_id: str | None = None
    array_index: int | None = None
    awaits: tuple[AwaitedRun, ...] = ()
    estimate: Estimate | None = None
    native: NativeStatus | None = None
    members: Mapping[str, int] = field(default_factory=dict)


class QueuePool(Struct, frozen=True, kw_only=True):
    """The queue of one pool, or a part of it, with the rules that explain its order.

    `total` counts all its requested runs, listed or not. `next` is the `after` of the next page (null: none).
    """

    cluster: str
    pool: str
    policy: Policy
    preemption: bool
    total: int
    runs: tuple[QueueEntry, ...]
    next: int | None = None
