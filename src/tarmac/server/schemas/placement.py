"""Where runs sit or would sit: nodes, reasons, dry runs. Described here, made in `server.records`."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Reason(BaseModel):
    """Why one node (or, with `node` null, every node) does not do."""

    code: str
    text: str
    node: str | None


class WhyEstimate(BaseModel):
    """When a run is likely to start, and by when at the latest; null: not known."""

    start_at: float | None
    latest_at: float | None
    basis: str
    text: str


class NamedRun(BaseModel):
    """A run, by its id and the name people gave it."""

    id: str
    name: str


class Why(BaseModel):
    """What a run waits for, and what would unblock it.

    `ahead` runs are ordered before it, and `awaits` have to end or give way: the first of each are named.
    """

    model_config = ConfigDict(extra="forbid")

    run_id: str
    state: str
    headline: str
    reasons: list[Reason]
    ahead: int
    ahead_first: list[NamedRun]
    awaits: int
    awaits_first: list[NamedRun]
    unblocked_by: str
    estimate: WhyEstimate | None
    largest: str | None
    lost: str


class NodeRun(BaseModel):
    """A run that sits on a node."""

    id: str
    name: str
    slots: int


class Node(BaseModel):
    """A machine, and what it holds."""

    model_config = ConfigDict(extra="forbid")

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
    runs: list[NodeRun]


class Placement(BaseModel):
    """One node of a placement."""

    node: str
    address: str
    rank: int
    slots: list[int]


class WorkerLaunch(BaseModel):
    """One worker as it would be started."""

    role: str
    replica: int
    index: int
    argv: list[str]
    env: dict[str, str]


class NodeLaunch(BaseModel):
    """What one node would run."""

    node: str
    rank: int
    workers: list[WorkerLaunch]


class DryRun(BaseModel):
    """What a submission would do now."""

    model_config = ConfigDict(extra="forbid")

    run: dict[str, Any]
    warnings: list[str]
    placement: list[Placement] | None
    reasons: list[Reason]
    largest: str | None
    request: str | None
    artifact_paths: dict[str, str]
    rendered: str | None
    nodes: list[NodeLaunch]
