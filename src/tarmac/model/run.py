"""Runs and attempts as recorded: state, outcome, cause, allocation, and the events behind them.

Only `RunStep`s (`model.changes`) change them. Fields that end in `_at` are seconds since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from msgspec import Struct, field

from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER
from tarmac.model.dependency import AwaitedRun
from tarmac.model.leaving import LeaveRequest
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState
from tarmac.model.log_policy import LogMatch
from tarmac.model.milestones import NOTHING_SEEN, Milestones
from tarmac.model.native import NativeStatus
from tarmac.model.record import StoredRecord, replace
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.protocol import START_ALLOWANCE_S


class Outcome(StrEnum):
    """How a run or an attempt ended. A run ends `completed`, `failed` or `stopped` only."""

    COMPLETED = "completed"
    FAILED = "failed"
    STOPPED = "stopped"
    PREEMPTED = "preempted"
    PAUSED = "paused"
    LOST = "lost"


RUN_OUTCOMES = frozenset({Outcome.COMPLETED, Outcome.FAILED, Outcome.STOPPED})


class CauseCode(StrEnum):
    """Why something ended, or why it waits for good."""

    EXIT_CODE = "exit_code"
    SIGNAL = "signal"
    OUT_OF_MEMORY = "out_of_memory"
    COMMAND_NOT_FOUND = "command_not_found"
    UNSUPPORTED = "unsupported"
    IMAGE_PULL = "image_pull"
    SETUP_FAILED = "setup_failed"
    CODE_UNREADABLE = "code_unreadable"
    NODE_LOST = "node_lost"
    TIME_LIMIT = "time_limit"
    WALL_TIME = "wall_time"
    LEASE_EXPIRED = "lease_expired"
    CREDITS_EXHAUSTED = "credits_exhausted"
    PLATFORM_FAULT = "platform_fault"
    NEVER_FITS = "never_fits"
    BUSY = "busy"
    UNPROVEN = "unproven"
    DEPENDENCY_FAILED = "dependency_failed"
    USER_REQUEST = "user_request"
    PREEMPTION = "preemption"


PLATFORM_FAULTS = frozenset({CauseCode.NODE_LOST, CauseCode.LEASE_EXPIRED, CauseCode.PLATFORM_FAULT})
"""Causes that are not the run's fault: retried automatically, never from the user's budget."""


class Cause(Struct, frozen=True, kw_only=True):
    """A code and a sentence, and if known the worker that caused it, with its `rank`.

    `exit_code` and `signal` (a name such as SIGKILL) exclude each other; `tail` are the worker's last lines,
    oldest first. `reasons` say, node by node, why none takes the run; `log_matches` are those of policies.
    """

    code: CauseCode
    message: str
    role: str | None = None
    replica: int | None = None
    worker: int | None = None
    rank: int | None = None
    node: str | None = None
    exit_code: int | None = None
    signal: str | None = None
    tail: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    log_matches: tuple[LogMatch, ...] = ()


class WorkerPlacement(Struct, frozen=True, kw_only=True):
    """The slots of one replica on a node; a role with `slots` has one placement per node, in rank order."""

    role: str
    replica: int
    node: str
    slots: tuple[int, ...] = ()
    cpus: float = 0.0
    memory_bytes: int = 0


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


class Release(Struct, frozen=True, kw_only=True):
    """A replica that ended, at `at`, while others of its attempt continue: its slots are free."""

    role: str
    replica: int
    at: float


class QueuePosition(Struct, frozen=True, kw_only=True):
    """The place of a run in its queue; `position` is on the scale of submission times (None: its own)."""

    priority: int
    weight: float
    position: float | None = None
    pool: str | None = None  # as in its spec
    max_slots: int | None = None  # of all trials of its experiment, as in its spec


class Share(Struct, frozen=True, kw_only=True):
    """The promise to an interruptible run for the period that began at `period_at`.

    It gets a block of `allotted_s`, in the order of `rank`; ended attempts used `used_s` of that (more if
    time was left over), also before this period if the block was cut in the previous one. `credit_s` is the
    time owed from earlier periods when this one began.
    """

    period_at: float
    allotted_s: float
    rank: int
    used_s: float = 0.0
    credit_s: float = 0.0


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


class CycleReport(Struct, frozen=True, kw_only=True):
    """The results of the turns of a cycle run (I11).

    `first_output_s` is the shortest time from a start to the first output; `committed` whether a turn left a
    complete checkpoint; `kept` whether the artifact store has one now; `resumed` whether a later turn read
    it.
    """

    turns: int
    first_output_s: float | None
    committed: bool
    resumed: bool
    kept: bool = False

    @property
    def proven(self) -> bool:
        """Whether the run can be paused and continue from its checkpoint on any node."""
        return self.committed and self.kept and self.resumed


class Attempt(Struct, frozen=True, kw_only=True):
    """One attempt of a run, from allocation to end; `number` counts from 1.

    `token` fences it: the node refuses requests for an older attempt of the run. `master_port` is the port
    promised to its workers (None: their nodes find one). On a cluster with its own queue, `native` is the
    attempt in that queue, and `granted_at` when it got its nodes; it holds them from then on, on other
    clusters from the beginning. `allotted_s` is the time promised at its placement, from the start of its
    workers: a turn, or the rest of a block (None: no promise); a turn that ended sooner has its real length.
    `home` is the id of the tarmac home that starts it and keeps its directory; None, in attempts of older
    versions: the home that serves its cluster. `released` are its replicas that ended before it; at least one
    placement is held to its end.
    """

    run_id: str
    number: int
    state: AttemptState
    engine: str
    allocation: Allocation
    token: str
    master_port: int | None
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    leave_request: LeaveRequest | None = None
    leave_requested_at: float | None = None
    allotted_s: float | None = None
    milestones: Milestones = NOTHING_SEEN
    outcome: Outcome | None = None
    cause: Cause | None = None
    home: str | None = None
    released: tuple[Release, ...] = ()
    granted_at: float | None = None
    native: NativeStatus | None = None

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


class Run(Struct, frozen=True, kw_only=True):
    """A user's request for work, durable across attempts and pauses.

    `seq` is the number of events so far, and guards every change. `failures` counts attempts that spent the
    retry budget, `faults` attempts ended by the platform, `preemptions` those by the scheduler. `code_digest`
    names the code snapshot once it is staged, `code_commit` (whole) the commit it was fetched from.
    `queue_position` None means as in the spec. `attained_slot_s` is the usage of its ended attempts and
    replicas; `ran_s` how much of the time limit those attempts spent; `turns` how many turns of a cycle run
    are over, and `cycle_report` their results so far. `retry` is when it may start again after a failed or
    lost attempt. `server` names the server it was submitted to, by that server's own cluster: no other places
    it. `excluded_nodes` are those where it failed with a match of a log policy that excludes them.
    """

    id: str
    spec: RunSpec
    user: str
    state: RunState
    seq: int
    created_at: float
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    attempt: int = 0
    outcome: Outcome | None = None
    cause: Cause | None = None
    code_digest: str | None = None
    code_commit: str | None = None
    failures: int = 0
    faults: int = 0
    preemptions: int = 0
    turns: int = 0
    attained_slot_s: float = 0.0
    ran_s: float = 0.0
    queue_position: QueuePosition | None = None
    share: Share | None = None
    cycle_report: CycleReport | None = None
    retry: Retry | None = None
    dependencies: tuple[AwaitedRun, ...] = ()
    idempotency_key: str | None = None
    array_id: str | None = None
    array_index: int | None = None
    server: str = LOCAL_CLUSTER
    excluded_nodes: tuple[str, ...] = ()

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


class Event(Struct, frozen=True, kw_only=True):
    """A step in the history of a run. `id` orders all of a store, `seq` those of a run; `actor` caused it."""

    id: int
    run_id: str
    seq: int
    at: float
    event: RunEvent
    state: RunState
    detail: Mapping[str, Any] = field(default_factory=dict)
    actor: str | None = None


_usual_queue_position = lru_cache(typed=True)(QueuePosition)
"""Cached because most runs have their spec's position, and those are equal."""


def attempt_id(run_id: str, number: int) -> str:
    """The id of an attempt: unique for ever, safe in file names and native names."""
    return f"{run_id}.{number}"


def split_attempt_id(identifier: str) -> tuple[str, int]:
    """The run id and the number of an attempt id."""
    run_id, _, number = identifier.rpartition(".")
    return run_id, int(number)
