"""Clusters as the client gets them: records of docs/api.md. Used by `cluster_calls`."""

from __future__ import annotations

from typing import TypedDict


class PoolRulesRecord(TypedDict):
    name: str
    nodes: int
    slots: int
    slots_used: int
    policy: str
    preemption: bool
    packing: str
    guaranteed_s: float
    patience_s: float
    share_by: str
    shares: dict[str, float]
    half_life_s: float
    turn_s: float
    period_s: float
    floor_s: float


class NodeKindRecord(TypedDict):
    pool: str
    shard: str | None
    slot_type: str | None
    nodes: int
    slots_each: int
    cpus_each: float
    memory_bytes_each: int
    slots: int
    slots_used: int
    states: dict[str, int]
    hostnames: list[str]


class FindingRecord(TypedDict):
    what: str
    ok: bool
    text: str


class ClusterRecord(TypedDict):
    name: str
    engine: str
    delegated: bool
    trouble: str | None
    kind: str
    nodes: int
    slots: int
    slots_used: int
    slots_free: int
    pools: list[PoolRulesRecord]
    node_kinds: list[NodeKindRecord]
    warnings: list[str]
