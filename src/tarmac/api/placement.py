"""Placements of runs: nodes, reasons, dry runs. Made in `server.records.runs`."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from tarmac.api.queue import Estimate


class Reason(TypedDict):
    """Why one node (or, with `node` null, every node) does not take a run."""

    code: str
    text: str
    node: str | None


class WhyEstimate(Estimate):
    """The likely start of a run, in numbers and as a sentence."""

    text: str


class NamedRun(TypedDict):
    """A run, by its id and the name people gave it."""

    id: str
    name: str


class Why(TypedDict):
    """The reasons why a run waits, and what would unblock it.

    `ahead` runs are ordered before it, and `awaits` have to end or be preempted: the first of each are named.
    `previous` is how its last attempt ended, if its cluster or the platform ended that, and `lost` the work
    that was lost.
    """

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
    previous: str


class NodeRun(TypedDict):
    """A run that holds resources on a node."""

    id: str
    name: str
    slots: int


class Drain(TypedDict):
    """The user, time and reason of a drain, as far as known."""

    user: str | None
    at: float | None
    reason: str


class Node(TypedDict):
    """A machine and its runs. `reason`: why it is down or drained, if known."""

    name: str
    cluster: str
    pool: str
    shard: str | None
    hostname: str
    address: str
    state: str
    reason: str
    drain: Drain | None
    slot_type: str | None
    slots: int
    slots_used: int
    cpus: float
    memory_bytes: int
    own_disk: bool
    runs: list[NodeRun]


class Placement(TypedDict):
    """One node of a placement."""

    node: str
    address: str
    rank: int
    slots: list[int]


class WorkerLaunch(TypedDict):
    """One worker as it would be started."""

    role: str
    replica: int
    index: int
    argv: list[str]
    env: dict[str, str]


class NodeLaunch(TypedDict):
    """The workers that one node would run."""

    node: str
    rank: int
    workers: list[WorkerLaunch]


class DryRun(TypedDict):
    """The result that a submission would have now."""

    run: dict[str, Any]
    warnings: list[str]
    placement: list[Placement] | None
    reasons: list[Reason]
    largest: str | None
    request: str | None
    artifact_paths: dict[str, str]
    rendered: str | None
    nodes: list[NodeLaunch]
