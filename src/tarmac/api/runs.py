"""Runs, their attempts, their history and their output. Made in `server.records.runs`, read by the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from typing_extensions import TypedDict

from tarmac.api.usage import NodeUtilization
from tarmac.model.notification import Occasion


class LogMatch(TypedDict):
    """The first line on a node that a log policy matched, and the policy's action."""

    policy: str
    node: str
    line: str
    action: str | None


class Cause(TypedDict):
    """Why something ended, and the worker that caused it, if one did."""

    code: str
    message: str
    role: str | None
    replica: int | None
    worker: int | None
    rank: int | None
    node: str | None
    exit_code: int | None
    signal: str | None
    tail: list[str]
    reasons: list[str]
    log_matches: list[LogMatch]


class CycleReport(TypedDict):
    """The results of the turns of a cycle run so far."""

    turns: int
    first_output_s: float | None
    committed: bool
    kept: bool
    resumed: bool
    proven: bool


class Share(TypedDict):
    """The promise to an interruptible run for a period, and its use of it."""

    period_at: float
    allotted_s: float
    rank: int
    used_s: float
    credit_s: float


class Notification(Struct, frozen=True, kw_only=True):
    """A message about a run to one receiver. `due_at` is its next try, if any.

    `receiver` shows only the host of a URL.
    """

    occasion: Occasion
    receiver: str
    at: float
    tries: int
    due_at: float | None
    sent_at: float | None
    error: str | None


class AwaitedRun(TypedDict):
    """A run whose end another one waits for: `condition` is completed or ended, `met` whether it has so."""

    run_id: str
    name: str
    condition: str
    met: bool


class Run(TypedDict):
    """A user's request for work. Times are seconds since the epoch.

    `priority`, `weight` and `pool` are the present ones. `max_turns` is null except for a cycle run.
    """

    id: str
    name: str
    project: str
    user: str
    dialect: str
    state: str
    outcome: str | None
    cause: Cause | None
    attempt: int
    mode: str
    priority: int
    weight: float
    pool: str | None
    slots: int
    created_at: float
    queued_at: float | None
    started_at: float | None
    ended_at: float | None
    failures: int
    faults: int
    preemptions: int
    turns: int
    max_turns: int | None
    retry_at: float | None
    dependencies: list[AwaitedRun]
    excluded_nodes: list[str]
    array_id: str | None
    array_index: int | None
    attained_slot_s: float
    ran_s: float
    cycle_report: CycleReport | None
    share: Share | None
    code_digest: str | None
    code_commit: str | None
    exit_status: int | None
    spec: dict[str, Any]
    source: str
    warnings: list[str]
    labels: dict[str, str]


class RunSummary(TypedDict):
    """One line of the list of runs.

    `system` is the one whose conventions apply in the run; `slot_type` and `image` are requested ones.
    """

    id: str
    name: str
    project: str
    user: str
    dialect: str
    state: str
    outcome: str | None
    mode: str
    priority: int
    slots: int
    attempt: int
    cluster: str | None
    pool: str | None
    created_at: float
    started_at: float | None
    ended_at: float | None
    message: str | None
    cause_code: str | None
    preemptions: int
    turns: int
    max_turns: int | None
    system: str
    slot_type: str | None
    image: str | None
    array_id: str | None
    array_index: int | None


class Array(Struct, frozen=True, kw_only=True):
    """An array: the number of its members by state, or by outcome once ended; `indices` as written."""

    id: str
    name: str
    project: str
    user: str
    indices: str
    at_most: int | None
    total: int
    counts: Mapping[str, int]
    created_at: float


class RunStatus(RunSummary):
    """The summary of a run with its cause, as the log stream sends it."""

    cause: Cause | None


class RunPage(TypedDict):
    """A page of the list, newest first; `next` is the `before` of the following page."""

    runs: list[RunSummary]
    next: str | None


class WorkerPlacement(TypedDict):
    """One replica's place; it holds its slots until `released_at` (null: until the attempt ends)."""

    role: str
    replica: int
    node: str
    slots: list[int]
    released_at: float | None


class Worker(TypedDict):
    """One supervised process; `rank`: among those of its role that a launcher starts."""

    role: str
    replica: int
    index: int
    node: str
    log: str
    pid: int | None
    started_at: float | None
    ended_at: float | None
    exit_code: int | None
    signal: str | None
    rank: int | None


class AttemptImage(TypedDict):
    """The image of an attempt: `fetched_bytes` of `total_bytes` have come from `source`, in `fetch_s`.

    `digest` "": it is being pulled, or is a plain directory; `source` "": its nodes had it.
    """

    digest: str
    source: str
    fetched_bytes: int
    total_bytes: int
    fetch_s: float


class SavedWork(TypedDict):
    """When a checkpoint was saved, 0: there is none; and the step it is of, where the SDK made it."""

    at: float
    step: int | None


class Milestones(TypedDict):
    """The observations of an attempt by its nodes; null: not seen."""

    first_output_at: float | None
    checkpoint_at: float | None
    read_at: float | None
    checkpoint_step: int | None
    kept: SavedWork | None
    restored: SavedWork | None
    image: AttemptImage | None


class Loss(TypedDict):
    """The work of an attempt that its successor does again, and the checkpoint from which that goes on.

    `rejected`: the attempt failed soon after it had begun from that checkpoint, and saved none. Its successor
    is given the version before, and what is lost by that is known once it has begun.
    """

    work_s: float
    checkpoint_at: float | None
    step: int | None
    rejected: bool


class Notice(TypedDict):
    """A message of a node to the run's user."""

    at: float
    node: str
    text: str


class NativeStatus(TypedDict):
    """An attempt in the queue of its cluster: id, state and reason are in that system's words.

    `text` is the reason in plain words ("" if it is not known), `advice` what can be done; `stuck`: it never
    starts unless a person does that. `place` is its position among the `waiting` jobs there (null: not
    known).
    """

    id: str
    state: str
    reason: str
    text: str
    advice: str
    stuck: bool
    expected_start_at: float | None
    place: int | None
    waiting: int | None


class Attempt(TypedDict):
    """One attempt of a run.

    `granted_at`: the time from which it holds its nodes, which have no names before.
    """

    number: int
    state: str
    engine: str
    cluster: str
    nodes: list[str]
    placements: list[WorkerPlacement]
    slot_types: list[str]
    native: NativeStatus | None
    created_at: float
    granted_at: float | None
    started_at: float | None
    ended_at: float | None
    leave_request: str | None
    leave_requested_at: float | None
    allotted_s: float | None
    milestones: Milestones
    lost: Loss | None
    outcome: str | None
    cause: Cause | None
    directory: str | None
    workers: list[Worker]
    notices: list[Notice]
    utilization: list[NodeUtilization]


class Event(TypedDict):
    """One step of a run's history."""

    id: int
    seq: int
    run_id: str
    at: float
    event: str
    state: str
    detail: dict[str, Any]
    actor: str | None


class WorkFile(Struct, frozen=True, kw_only=True):
    """An entry of a working directory: `kind` is `file`, `directory`, `link` or `other`."""

    name: str
    kind: str
    bytes: int
    modified_at: float


class WorkFiles(Struct, frozen=True, kw_only=True):
    """A directory of an attempt's files on a node; `more`: it has more entries than listed."""

    attempt: int
    node: str
    path: str
    files: tuple[WorkFile, ...]
    more: bool


class LogChunk(TypedDict):
    """Bytes `offset` to `next` of one worker's log, as text; `at`: by when it was written, if requested."""

    attempt: int
    role: str
    replica: int
    worker: int
    rank: int | None
    node: str
    offset: int
    next: int
    text: str
    at: float | None


class Report(TypedDict):
    """Metrics and progress that a worker reported.

    A number that is not finite is `"nan"`, `"inf"` or `"-inf"`.
    """

    at: float
    attempt: int
    node: str
    metrics: dict[str, float | str | bool | None]
    progress: float | None
    step: int | None
