"""Runs and attempts as recorded: state, outcome, cause, allocation, and the events behind them.

Only `RunStep`s (`model.changes`) change them. Fields that end in `_at` are seconds since the epoch (UTC).
"""

from functools import lru_cache

from msgspec import Struct

from tarmac.model.array import AwaitedRun
from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER
from tarmac.model.codec import StoredRecord, replace
from tarmac.model.lifecycle import AttemptState
from tarmac.model.progress import AttemptProgress, Replica, RunProgress, WorkerPlacement
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.protocol import START_ALLOWANCE_S


class Allocation(StoredRecord, frozen=True, kw_only=True):
    """The grant of an attempt, all or none: its placements, in the order of roles and replicas.

    `nodes` are the node names in rank order: the index is NODE_RANK. `slot_types` are those of the slots,
    sorted. `delegated`: the cluster places; nodes have names by rank (`rank_name`) until it reports theirs.
    """

    cluster: str
    pool: str = DEFAULT_POOL
    placements: tuple[WorkerPlacement, ...]
    slot_types: tuple[str, ...] = ()
    delegated: bool = False

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(placement.node for placement in self.placements))

    @property
    def first_node(self) -> str:
        """The node of rank 0; "" without placements."""
        return self.placements[0].node if self.placements else ""

    @property
    def slots(self) -> int:
        return sum(len(placement.slots) for placement in self.placements)


class Release(Replica, frozen=True, kw_only=True):
    """A replica that ended, at `at`, while others of its attempt continue: its slots are free."""

    at: float


class QueuePosition(Struct, frozen=True, kw_only=True):
    """The place of a run in its queue; `position` is on the scale of submission times (None: its own)."""

    priority: int
    weight: float
    position: float | None = None
    pool: str | None = None  # as in its spec
    max_slots: int | None = None  # of all trials of its experiment, as in its spec


def block_begins_at(placed_at: float, started_at: float | None) -> float:
    """The time from which an attempt uses up the time of an interruptible run: a slow start is not its fault.

    Time beyond the allowance counts as its own setup, because no better data exists. The clock of a node may
    be wrong; it shifts the beginning by no more than the allowance.
    """
    latest_at = placed_at + START_ALLOWANCE_S
    return latest_at if started_at is None else min(max(placed_at, started_at), latest_at)


class Retry(Struct, frozen=True, kw_only=True):
    """When a run may start again after it failed or the platform ended it: not before `at`.

    `tries` counts the ends of that kind in a row; `end` identifies the last one (None: no comparison). A run
    whose job ended at its wall time may start at once: then `tries` counts the jobs that made no progress,
    and `step` is that of its newest checkpoint, if known.
    """

    at: float
    tries: int
    end: str | None = None
    step: int | None = None


class Attempt(AttemptProgress, frozen=True, kw_only=True):
    """One attempt of a run, from allocation to end.

    `token` fences it: the node refuses requests for an older attempt of the run. `master_port` is the port
    promised to its workers (None: their nodes find one). On a cluster with its own queue, `granted_at` is
    when it got its nodes; it holds them from then on, on other clusters from the beginning. `home` is the id
    of the tarmac home that starts it and keeps its directory; None, in attempts of older versions: the home
    that serves its cluster. `released` are its replicas that ended before it; at least one placement is held
    to its end.
    """

    run_id: str
    allocation: Allocation
    token: str
    master_port: int | None = None
    home: str | None = None
    released: tuple[Release, ...] = ()
    granted_at: float | None = None

    @property
    def id(self) -> str:
        return attempt_id(self.run_id, self.number)

    @property
    def delegated(self) -> bool:
        """Whether it was given to a cluster that places by itself."""
        return self.allocation.delegated

    @property
    def allocated_at(self) -> float | None:
        """The time from which it holds its allocation; None while it waits in a cluster's own queue."""
        return self.granted_at if self.delegated else self.created_at

    @property
    def is_to_be_submitted(self) -> bool:
        """Whether its engine may not have received it yet, according to the record."""
        if self.delegated:
            return self.state is AttemptState.SUBMITTED and self.native is None
        return self.state is AttemptState.STARTING

    @property
    def current_allocation(self) -> Allocation:
        """The part of its allocation that it still holds."""
        if not self.released:
            return self.allocation
        gone = {(each.role, each.replica) for each in self.released}
        placements = tuple(
            placement
            for placement in self.allocation.placements
            if (placement.role, placement.replica) not in gone
        )
        return replace(self.allocation, placements=placements)


class Run(RunProgress, frozen=True, kw_only=True):
    """A user's request for work, durable across attempts and pauses.

    `seq` is the number of events so far, and guards every change. `queue_position` None means as in the spec.
    `retry` is when it may start again after a failed or lost attempt. `server` names the server it was
    submitted to, by that server's own cluster: no other places it.
    """

    spec: RunSpec
    seq: int
    queue_position: QueuePosition | None = None
    retry: Retry | None = None
    idempotency_key: str | None = None
    server: str = LOCAL_CLUSTER

    @property
    def place(self) -> QueuePosition:
        """Its queue position, as a person set it or as in its spec."""
        return self.queue_position or _usual_queue_position(
            priority=self.spec.priority, weight=self.spec.weight
        )

    @property
    def awaits(self) -> tuple[AwaitedRun, ...]:
        """The runs that it still waits for before it may start."""
        return tuple(each for each in self.dependencies if not each.met) if self.dependencies else ()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def project(self) -> str:
        return self.spec.project


_usual_queue_position = lru_cache(typed=True)(QueuePosition)
"""Cached because most runs have their spec's position, and those are equal."""


def attempt_id(run_id: str, number: int) -> str:
    """The id of an attempt: unique for ever, safe in file names and native names."""
    return f"{run_id}.{number}"


def split_attempt_id(identifier: str) -> tuple[str, int]:
    """The run id and the number of an attempt id."""
    run_id, _, number = identifier.rpartition(".")
    return run_id, int(number)
