"""Clusters, their pools and nodes by kind. Made in `server.records.clusters`, read by the client."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from tarmac.api.server import ErrorForm


class PoolRules(TypedDict):
    """A pool of a cluster: its nodes and slots, and the rules of its queue."""

    name: str
    nodes: int
    slots: int
    slots_used: int
    policy: str
    preemption: bool
    packing: str
    guaranteed_s: float
    backfill_window_s: float
    share_by: str
    shares: dict[str, float]
    half_life_s: float
    turn_s: float
    period_s: float
    floor_s: float


class NodeKind(TypedDict):
    """Similar nodes of a cluster.

    `states` counts them by state; `hostnames` are the first and the last of them.
    """

    pool: str
    shard: str | None
    slot_type: str | None
    slots_each: int
    cpus_each: float
    memory_bytes_each: int
    nodes: int
    slots: int
    slots_used: int
    states: dict[str, int]
    hostnames: list[str]


class QueueOffer(TypedDict):
    """The queue of a cluster for a pool, and the limits of that queue.

    `queue` is its name in the cluster, `terms` are further settings of all its jobs. None: no limit is known.
    """

    pool: str
    queue: str
    terms: dict[str, str]
    longest_s: float | None
    usual_s: float | None
    most_nodes: int | None


class Cluster(TypedDict):
    """A cluster, its pools and its nodes by kind. Only the answer to a change has `warnings`.

    `settings` are its engine's, `queues` those of its pools if it has a queue of its own.
    """

    name: str
    engine: str
    delegated: bool
    trouble: str | None
    kind: str
    nodes: int
    slots: int
    slots_used: int
    slots_free: int
    pools: list[PoolRules]
    node_kinds: list[NodeKind]
    settings: dict[str, Any]
    queues: list[QueueOffer]
    warnings: list[str]


class Finding(TypedDict):
    """The check of one thing that a cluster needs."""

    what: str
    ok: bool
    text: str


class ClusterMachine(TypedDict):
    """A machine of a cluster that was started over SSH, and since when its process runs.

    `state` is up, down or unreachable; `problem` is the reason.
    """

    name: str
    role: str
    state: str
    address: str | None
    slots: int | None
    pid: int | None
    since: float | None
    problem: str | None


class ChangeLine(TypedDict):
    """One line on what was done on a machine."""

    machine: str
    text: str


class ClusterChange(TypedDict):
    """A cluster that is being started, changed or ended: `state` is working, done or failed.

    `lines` are those from the requested number on, `next` the number of the line after them.
    """

    cluster: str
    kind: str
    state: str
    began_at: float
    lines: list[ChangeLine]
    next: int
    error: ErrorForm | None


class ClusterStatus(TypedDict):
    """The machines of a cluster that was started over SSH, and the change in progress, if any."""

    cluster: str
    engine: str
    machines: list[ClusterMachine]
    change: ClusterChange | None
