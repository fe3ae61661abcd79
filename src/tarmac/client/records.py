"""What the API answers, as typed dictionaries: the JSON itself, with its shape known to type checkers.

`docs/api.md` is the contract; `cli` and users of the Python client read these.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


class VersionRecord(TypedDict):
    version: str
    pid: int
    home: str
    started_at: float


class CauseRecord(TypedDict):
    code: str
    message: str
    role: str | None
    replica: int | None
    worker: int | None
    node: str | None
    exit_code: int | None
    signal: str | None
    tail: list[str]


class VerdictRecord(TypedDict):
    turns: int
    first_output_s: float | None
    committed: bool
    kept: bool
    resumed: bool
    proven: bool


class ShareRecord(TypedDict):
    period_at: float
    allotted_s: float
    rank: int
    used_s: float
    credit_s: float


class RunRecord(TypedDict):
    id: str
    name: str
    project: str
    user: str
    dialect: str
    state: str
    outcome: str | None
    cause: CauseRecord | None
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
    attained_slot_s: float
    ran_s: float
    verdict: VerdictRecord | None
    share: ShareRecord | None
    code_digest: str | None
    code_commit: str | None
    exit_status: int | None
    spec: dict[str, Any]
    source: str
    warnings: list[str]
    labels: dict[str, str]


class RunSummaryRecord(TypedDict):
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
    cause: NotRequired[CauseRecord | None]  # in the messages of a log stream


class RunPage(TypedDict):
    runs: list[RunSummaryRecord]
    next: str | None


class SeatRecord(TypedDict):
    role: str
    replica: int
    node: str
    slots: list[int]
    released_at: float | None


class WorkerRecord(TypedDict):
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


class EvidenceRecord(TypedDict):
    first_output_at: float | None
    checkpoint_at: float | None
    read_at: float | None
    kept_at: float | None
    checkpoint_step: int | None


class LossRecord(TypedDict):
    work_s: float
    checkpoint_at: float | None
    step: int | None


class NoticeRecord(TypedDict):
    at: float
    node: str
    text: str


class NativeStatusRecord(TypedDict):
    id: str
    state: str
    reason: str
    expected_start_at: float | None


class AttemptRecord(TypedDict):
    number: int
    state: str
    engine: str
    cluster: str
    nodes: list[str]
    seats: list[SeatRecord]
    slot_types: list[str]
    native: NativeStatusRecord | None
    created_at: float
    granted_at: float | None
    started_at: float | None
    ended_at: float | None
    asked: str | None
    asked_at: float | None
    allotted_s: float | None
    evidence: EvidenceRecord
    lost: LossRecord | None
    outcome: str | None
    cause: CauseRecord | None
    directory: str | None
    workers: list[WorkerRecord]
    notices: list[NoticeRecord]


class EventRecord(TypedDict):
    id: int
    seq: int
    run_id: str
    at: float
    event: str
    state: str
    detail: dict[str, Any]
    actor: str | None


class LogChunk(TypedDict):
    attempt: int
    role: str
    replica: int
    worker: int
    node: str
    offset: int
    next: int
    text: str


class ReportRecord(TypedDict):
    at: float
    attempt: int
    node: str
    metrics: dict[str, float | str | bool | None]
    progress: float | None
    step: int | None


class ReasonRecord(TypedDict):
    code: str
    text: str
    node: str | None


class WhyEstimateRecord(TypedDict):
    start_at: float | None
    latest_at: float | None
    basis: str
    text: str


class NamedRunRecord(TypedDict):
    id: str
    name: str


class WhyRecord(TypedDict):
    run_id: str
    state: str
    headline: str
    reasons: list[ReasonRecord]
    ahead: int
    ahead_first: list[NamedRunRecord]
    awaits: int
    awaits_first: list[NamedRunRecord]
    unblocked_by: str
    estimate: WhyEstimateRecord | None
    largest: str | None
    lost: str


class EstimateRecord(TypedDict):
    start_at: float | None
    latest_at: float | None
    basis: str


class QueueEntryRecord(TypedDict):
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
    estimate: EstimateRecord | None
    native: NativeStatusRecord | None


class QueuePoolRecord(TypedDict):
    cluster: str
    pool: str
    policy: str
    preemption: bool
    total: int
    runs: list[QueueEntryRecord]


class NodeRunRecord(TypedDict):
    id: str
    name: str
    slots: int


class NodeRecord(TypedDict):
    name: str
    cluster: str
    pool: str
    shard: str | None
    hostname: str
    address: str
    state: str
    slot_type: str | None
    slots: int
    slots_used: int
    cpus: float
    memory_bytes: int
    runs: list[NodeRunRecord]


class PlacementRecord(TypedDict):
    node: str
    address: str
    rank: int
    slots: list[int]


class WorkerLaunchRecord(TypedDict):
    role: str
    replica: int
    index: int
    argv: list[str]
    env: dict[str, str]


class NodeLaunchRecord(TypedDict):
    node: str
    rank: int
    workers: list[WorkerLaunchRecord]


class DryRunRecord(TypedDict):
    run: dict[str, Any]
    warnings: list[str]
    placement: list[PlacementRecord] | None
    reasons: list[ReasonRecord]
    largest: str | None
    request: str | None
    artifact_paths: dict[str, str]
    rendered: str | None
    nodes: list[NodeLaunchRecord]


class ProblemRecord(TypedDict):
    message: str
    file: str | None
    line: int | None
    column: int | None
    hint: str | None


class CheckRecord(TypedDict):
    problems: list[ProblemRecord]
    warnings: list[str]
