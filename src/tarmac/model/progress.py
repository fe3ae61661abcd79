"""The progress of runs and attempts: facts that stored records and answers share, which need no spec.

Fields that end in `_at` are seconds since the epoch (UTC).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from tarmac.model.array import AwaitedRun
from tarmac.model.codec import StoredRecord
from tarmac.model.lifecycle import AttemptState, LeaveRequest, RunEvent, RunState


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
    BUDGET_EXHAUSTED = "budget_exhausted"
    PLATFORM_FAULT = "platform_fault"
    NEVER_FITS = "never_fits"
    BUSY = "busy"
    UNPROVEN = "unproven"
    DEPENDENCY_FAILED = "dependency_failed"
    USER_REQUEST = "user_request"
    PREEMPTION = "preemption"


PLATFORM_FAULTS = frozenset({CauseCode.NODE_LOST, CauseCode.LEASE_EXPIRED, CauseCode.PLATFORM_FAULT})
"""Causes that are not the run's fault: retried automatically, never from the user's budget."""


class LogAction(StrEnum):
    """The action if a run fails whose log has such a line. LAST_TRY: it is not tried again."""

    LAST_TRY = "cancel_retries"
    EXCLUDE_NODE = "exclude_node"


class LogPolicy(StoredRecord, frozen=True, kw_only=True):
    """A regular expression, searched for in each line of a log. Without `action`, only the cause names it."""

    pattern: str
    name: str | None = None
    action: LogAction | None = None

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.name or self.pattern


class LogMatch(Struct, frozen=True, kw_only=True):
    """The first line on a node that a policy matched; `policy` is its label."""

    policy: str
    node: str
    line: str
    action: LogAction | None = None


class Cause(Struct, frozen=True, kw_only=True):
    """A code and a sentence, and if known the worker that caused it, with its `rank` (from a launcher).

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


class CycleReport(Struct, frozen=True, kw_only=True):
    """The results of the turns of a cycle run (I11).

    `first_output_s` is the shortest time from a start to the first output; `committed` whether a turn left a
    complete checkpoint; `kept` whether the artifact store has one now; `resumed` whether one was read later.
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


class AttemptImage(Struct, frozen=True, kw_only=True):
    """The image of an attempt, as its nodes report it. `digest` "": not known yet, or a plain directory.

    `fetched_bytes` of `total_bytes` have come from `source` (a registry, or a path of the node) in `fetch_s`.
    `source` "": the nodes had the image.
    """

    digest: str = ""
    source: str = ""
    fetched_bytes: int = 0
    total_bytes: int = 0
    fetch_s: float = 0.0


class SavedWork(Struct, frozen=True):
    """When a checkpoint was saved, 0: there is none; and the step it is of, where the SDK made it."""

    at: float = 0.0
    step: int | None = None


class Milestones(Struct, frozen=True, kw_only=True):
    """The progress that nodes saw: first output, last whole checkpoint, whether it read one, its image.

    `checkpoint_at` is when the newest checkpoint of this attempt was whole, `checkpoint_step` the step it is
    of, where the SDK made it; `read_at` when the attempt first read one that an earlier attempt had left;
    `kept` is the newest checkpoint in the newest version in the artifact store, `restored` the one that it
    began from, where a node had to restore it. `over_at` is when the last worker of one that was not lost had
    ended: storing what it left may take long.
    """

    first_output_at: float | None = None
    checkpoint_at: float | None = None
    read_at: float | None = None
    checkpoint_step: int | None = None
    kept: SavedWork | None = None
    restored: SavedWork | None = None
    over_at: float | None = None
    image: AttemptImage | None = None


NOTHING_SEEN = Milestones()


def merge_milestones(known: Milestones, seen: Milestones) -> Milestones:
    """What is known after more was seen, later or on another node: first output, newest checkpoint."""
    if NOTHING_SEEN in (known, seen) or seen == known:
        return seen if known == NOTHING_SEEN else known
    newest = max(seen, known, key=lambda each: each.checkpoint_at or 0.0)
    return Milestones(
        first_output_at=min(filter(None, (known.first_output_at, seen.first_output_at)), default=None),
        checkpoint_at=newest.checkpoint_at,
        read_at=min(filter(None, (known.read_at, seen.read_at)), default=None),
        checkpoint_step=newest.checkpoint_step,
        kept=seen.kept or known.kept,
        restored=seen.restored or known.restored,
        over_at=max(filter(None, (known.over_at, seen.over_at)), default=None),
        image=seen.image or known.image,
    )


class NativeStatus(Struct, frozen=True, kw_only=True):
    """An attempt in the queue of its system; `stuck`: it does not start unless a person follows `advice`.

    `state` and `reason` are in the words of that system, and `text` is the reason in plain ones. `place` is
    its position among the `waiting` jobs of its queue, 1 for the next; None: unknown.
    """

    id: str
    state: str = ""
    reason: str = ""
    text: str = ""
    advice: str = ""
    stuck: bool = False
    expected_start_at: float | None = None
    place: int | None = None
    waiting: int | None = None

    @property
    def because(self) -> str:
        """The reason in plain words, with the system's own after it; "" for none."""
        return f"{self.text} ({self.reason})" if self.text else self.reason


class Sighting(Struct, frozen=True, kw_only=True):
    """The times of an attempt on its nodes, or of a node's part of it, by the nodes' own clocks.

    When the first of them claimed it (None: no sign of life yet; setup may take hours after it), when all
    workers ran, when all had ended; and what was seen so far, also while it runs.
    """

    claimed_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    milestones: Milestones = NOTHING_SEEN


class RunProgress(Struct, frozen=True, kw_only=True):
    """How far a run has come. `run.Run` is its whole record, `api.Run` the answer about it.

    `failures` counts attempts that spent the retry budget, `faults` attempts ended by the platform,
    `preemptions` those by the scheduler. `code_digest` names the code snapshot once it is staged,
    `code_commit` (whole) the commit it was fetched from. `attained_slot_s` is the usage of its ended attempts
    and replicas; `ran_s` how much of the time limit those attempts spent; `turns` how many turns of a cycle
    run are over, and `cycle_report` their results so far. `excluded_nodes` are those where it failed with a
    match of a log policy that excludes them.
    """

    id: str
    user: str
    state: RunState
    outcome: Outcome | None = None
    cause: Cause | None = None
    attempt: int = 0
    created_at: float
    queued_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    failures: int = 0
    faults: int = 0
    preemptions: int = 0
    turns: int = 0
    dependencies: tuple[AwaitedRun, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    array_id: str | None = None
    array_index: int | None = None
    attained_slot_s: float = 0.0
    ran_s: float = 0.0
    cycle_report: CycleReport | None = None
    share: Share | None = None
    code_digest: str | None = None
    code_commit: str | None = None


class Replica(Struct, frozen=True, kw_only=True):
    """One replica of a role of a run."""

    role: str
    replica: int


class WorkerPlacement(Replica, frozen=True, kw_only=True):
    """The slots of one replica on a node; a role with `slots` has one placement per node, in rank order."""

    node: str
    slots: tuple[int, ...] = ()
    cpus: float = 0.0
    memory_bytes: int = 0


class WorkerStatus(Replica, frozen=True, kw_only=True):
    """One worker of an attempt as the node reports it; `rank` is that of its launch (None: no launcher)."""

    index: int
    node: str
    log: str
    pid: int | None = None
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    rank: int | None = None


class Notice(Struct, frozen=True, kw_only=True):
    """A message of a node to the run's user: an unmet promise or files that were not kept, and why."""

    at: float
    node: str
    text: str


class Loss(Struct, frozen=True, kw_only=True):
    """The work of an attempt that its successor has to do again.

    `checkpoint_at` is when the checkpoint was whole from which the run continues (None: there is none, it
    starts again at 0), `step` its step, if known. `rejected`: the attempt failed with
    that checkpoint, and its successor, which has not begun, is given the version before.
    """

    work_s: float
    checkpoint_at: float | None = None
    step: int | None = None
    rejected: bool = False


class AttemptProgress(Struct, frozen=True, kw_only=True):
    """How far an attempt has come; `number` counts from 1. `run.Attempt` is its whole record.

    On a cluster with its own queue, `native` is the attempt in that queue. `allotted_s` is the time promised
    at its placement, from the start of its workers: a turn, or the rest of a block (None: no promise); a turn
    that ended sooner has its real length.
    """

    number: int
    state: AttemptState
    engine: str
    native: NativeStatus | None = None
    created_at: float
    started_at: float | None = None
    ended_at: float | None = None
    leave_request: LeaveRequest | None = None
    leave_requested_at: float | None = None
    allotted_s: float | None = None
    milestones: Milestones = NOTHING_SEEN
    outcome: Outcome | None = None
    cause: Cause | None = None


class StepEvent(Struct, frozen=True, kw_only=True):
    """One transition of a run, with details for the history; `actor` caused it."""

    event: RunEvent
    at: float
    detail: Mapping[str, Any] = field(default_factory=dict)
    actor: str | None = None


class Event(StepEvent, frozen=True, kw_only=True):
    """A step in the history of a run. `id` orders all of a store, `seq` those of a run.

    `at` is when the server learned of it, never earlier than the step before.
    """

    id: int
    seq: int
    run_id: str
    state: RunState


LEAST_S = 1.0  # smaller losses count as none: the worker saved last and left


def loss_text(work_s: float, checkpoint_at: float | None, step: int | None, rejected: bool = False) -> str:
    """In words, as what follows "lost:"."""
    if checkpoint_at is None:
        return f"{_seconds(work_s)} of work; it has no checkpoint: it will start again at 0"
    checkpoint = "its last checkpoint" if step is None else f"the checkpoint at step {step}"
    if rejected:
        lost = f"at least {_seconds(work_s)} of work: it failed soon after it had begun from {checkpoint}"
        return f"{lost}; the next attempt begins from the version before, if there is one"
    if work_s < LEAST_S:
        return f"no work: it goes on from {checkpoint}"
    return f"{_seconds(work_s)} of work since {checkpoint}"


def _seconds(seconds: float) -> str:
    """`12 s`, `5 min`, `3 h`: seconds matter less in longer times."""
    for unit, length_s in (("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:.0f} {unit}"
    return f"{seconds:.0f} s"
