"""Clusters as the API answers them, and descriptions as clients send them. Made in `cluster_records`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class PoolRules(BaseModel):
    """A pool of a cluster: what is in it, and the rules of its queue."""

    model_config = ConfigDict(extra="forbid")

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


class NodeKind(BaseModel):
    """Like nodes of a cluster. `states` counts them; `hostnames` are the first and the last of them."""

    model_config = ConfigDict(extra="forbid")

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


class Cluster(BaseModel):
    """A cluster, its pools and its nodes by kind. `warnings` stand only in the answer to a description."""

    model_config = ConfigDict(extra="forbid")

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
    warnings: list[str]


class Finding(BaseModel):
    """One thing that a cluster needs, and whether it is so."""

    model_config = ConfigDict(extra="forbid")

    what: str
    ok: bool
    text: str


class ClusterBody(BaseModel):
    """The description of a cluster."""

    model_config = ConfigDict(extra="forbid", title="ClusterDescription")

    source: str = Field(description="text of the cluster file")
    filename: str = Field("cluster.yaml", description="its name, for messages")
    replace: bool = Field(False, description="in place of the cluster of the same name")


class NodesBody(BaseModel):
    """Which nodes: by name, or every one of a cluster, pool and shard."""

    model_config = ConfigDict(extra="forbid", title="NodeChoice")

    nodes: list[str] = Field(default_factory=list)
    cluster: str | None = None
    pool: str | None = None
    shard: str | None = None
