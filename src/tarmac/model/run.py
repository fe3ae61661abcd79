"""Runs and attempts as they are recorded: state, outcome, cause, allocation, and the events behind them.

Changed only by `RunStep`s (`model.changes`). Fields that end in `_at` are seconds since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from typing import Any

from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER
from tarmac.model.dependency import AwaitedRun
from tarmac.model.leaving import LeaveRequest
from tarmac.model.lifecycle import AttemptState, RunEvent, RunState
from tarmac.model.log_policy import LogMatch
from tarmac.model.milestones import NOTHING_SEEN, Milestones
from tarmac.model.native import NativeStatus
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
"""Causes that are not the run's own doing: retried by themselves, never from the user's budget."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Why: a code and a sentence, and where known the worker that brought it about, with its `rank`.

    `exit_code` and `signal` (a name such as SIGKILL) exclude each other; `tail` are the worker's last lines,
    oldest first. `reasons` say, node by node, why none takes the run; `log_matches` what policies found.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlacement:
    """A node, and the slots one replica gets there; a role with `slots` has one per node, in rank order."""

    role: str
    replica: int
    node: str
    slots: tuple[int, ...] = ()
    cpus: float = 0.0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """What was granted to an attempt, all or none: its placements, in the order of roles and replicas.

    `nodes` lists the node names in rank order: the index is NODE_RANK. `slot_types` are those of the slots,
    sorted. `delegated`: the cluster places; nodes are named by rank (`rank_name`) until it has named them.
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
        """The node of rank 0; "" where there are no placements."""
        return self.placements[0].node if self.placements else ""

    @property
    def slots(self) -> int:
        return sum(len(placement.slots) for placement in self.placements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A replica that ended, at `at`, while others of its attempt go on: it holds its slots no more."""

    role: str
    replica: int
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosition:
    """The place of a run in its queue; `position` is on the scale of submission times (None: its own)."""

    priority: int
    weight: float
    position: float | None = None
    pool: str | None = None  # that of its spec
    max_slots: int | None = None  # of all trials of its experiment; that of its spec


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What an interruptible run was promised of the period that began at `period_at`.

    It gets a block of `allotted_s`, in the order of `rank`; of that, attempts which ended used `used_s`
    (more, where time was left over), also before this period where the block was cut in the one before.
    `credit_s` is what it was owed from earlier periods when this began.
    """

    period_at: float
    allotted_s: float
    rank: int
    used_s: float = 0.0
    credit_s: float = 0.0


def block_begins_at(placed_at: float, started_at: float | None) -> float:
    """From when on an attempt uses up the time of an interruptible run: a slow start is not its doing.

    What it takes longer than the allowance is: its own setup, as far as anybody can tell. The clock of a node
    may be wrong; it shifts the beginning by no more than that.
    """
    latest_at = placed_at + START_ALLOWANCE_S
    return latest_at if started_at is None else min(max(placed_at, started_at), latest_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """When a run that failed, or that the platform ended, may start again: not before `at`.

    `tries` counts the ends of that kind in a row; `end` tells the last one from others (None: nothing is to
    be compared with it). One whose job ended at its wall time may at once: `tries` counts the jobs that
    brought it no further, and `step` is that of its newest checkpoint, where known.
    """

    at: float
    tries: int
    end: str | None = None
    step: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleReport:
    """What the turns of a cycle run have shown (I11).

    `first_output_s` is the shortest time from a start to the first output; `committed` whether a turn left a
    whole checkpoint; `kept` whether the artifact store has one now; `resumed` whether a later turn read it.
    """

    turns: int
    first_output_s: float | None
    committed: bool
    resumed: bool
    kept: bool = False

    @property
    def proven(self) -> bool:
        """Whether the run has shown that it can be paused and go on from where it was, on any node."""
        return self.committed and self.kept and self.resumed


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One stretch of running of a run, from allocation to end; `number` counts from 1.

    `token` fences it: whoever acts for an older attempt of the run is refused on the node. `master_port`
    is the port promised to the workers of this attempt (None: their nodes find one). On a cluster with a
    queue of its own, `native` is the attempt as that queue knows it, and `granted_at` when it was given its
    nodes; it holds them from then on, elsewhere from the beginning. `allotted_s` is the time it was promised
    when it was placed, from the start of its workers: a turn, or what is left of a block (None: nothing is
    promised); a turn over sooner lasted so long. `home` is the id of the tarmac home that starts it and keeps
    its directory; None, in attempts of older versions: the one that serves its cluster. `released` are its
    replicas that ended before it; at least one placement is held to its end.
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
        """From when on it holds its allocation; None while it waits for it in a cluster's own queue."""
        return self.granted_at if self.delegated else self.created_at

    @property
    def is_to_be_submitted(self) -> bool:
        """Whether its engine may not have been given it yet, for all that is recorded."""
        if self.delegated:
            return self.state is AttemptState.SUBMITTED and self.native is None
        return self.state is AttemptState.STARTING

    @property
    def current_allocation(self) -> Allocation:
        """What it still holds of its allocation."""
        if not self.released:
            return self.allocation
        gone = {(each.role, each.replica) for each in self.released}
        placements = tuple(
            placement
            for placement in self.allocation.placements
            if (placement.role, placement.replica) not in gone
        )
        return replace(self.allocation, placements=placements)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a user asked for, durable across attempts and pauses.

    `seq` is the number of events so far: every change is guarded by it. `failures` counts attempts that
    spent the retry budget, `faults` attempts ended by the platform, `preemptions` those by the scheduler.
    `code_digest` names the code snapshot once it is staged, `code_commit` (whole) the commit it was fetched
    from. `queue_position` None is what the spec says. `attained_slot_s` is what its ended attempts and
    replicas used; `ran_s` how much of the time limit those attempts spent; `turns` how many turns of a cycle
    run are over, and `cycle_report` what they have shown so far. `retry` is when it may start again after its
    last attempt, where that failed or was lost. `server` names the server it was submitted to, by that
    server's own cluster: no other places it. `excluded_nodes`: where it failed as its log policies say.
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
        """Its queue position, as a person set it or as its spec has it."""
        return self.queue_position or _usual_queue_position(
            priority=self.spec.priority, weight=self.spec.weight
        )

    @property
    def awaits(self) -> tuple[AwaitedRun, ...]:
        """The runs that it waits for still, before it may start."""
        return tuple(each for each in self.dependencies if not each.met) if self.dependencies else ()

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def project(self) -> str:
        return self.spec.project


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
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
"""Nobody moved most runs: they are alike."""


def attempt_id(run_id: str, number: int) -> str:
    """The id of an attempt: unique for ever, safe in file names and native names."""
    return f"{run_id}.{number}"


def split_attempt_id(identifier: str) -> tuple[str, int]:
    """The run id and the number of an attempt id."""
    run_id, _, number = identifier.rpartition(".")
    return run_id, int(number)
