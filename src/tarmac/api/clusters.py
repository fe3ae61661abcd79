"""Clusters, their pools and nodes by kind. Made in `server.records.clusters`, read by the client."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict


class PoolRules(TypedDict):
    """A pool of a cluster: what is in it, and the rules of its queue."""

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
    """Like nodes of a cluster. `states` counts them; `hostnames` are the first and the last of them."""

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
    """What a pool stands for in a cluster with a queue of its own, and what that takes of a run at most.

    `queue` is what the cluster calls it, `terms` what all its jobs say beside. None: no limit is known.
    """

    pool: str
    queue: str
    terms: dict[str, str]
    longest_s: float | None
    usual_s: float | None
    most_nodes: int | None


class Cluster(TypedDict):
    """A cluster, its pools and its nodes by kind. `warnings` stand only in the answer to a description.

    `settings` are its engine's, `queues` what its pools stand for where it has a queue of its own.
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
    """One thing that a cluster needs, and whether it is so."""

    what: str
    ok: bool
    text: str
