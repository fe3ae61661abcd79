"""Nodes, pools and clusters as facts: what an engine offers and what the scheduler places on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tarmac.model.resources import Resources

LOCAL_CLUSTER = "local"
"""The cluster that is there without any settings."""

DEFAULT_POOL = "default"

REHEARSAL_PREFIX = "rehearsal-"
"""What the name of a cluster that exists for one run alone begins with; the run's id follows."""


class NodeState(StrEnum):
    """Whether a node takes work: `drained` by a person, `down` by its engine; a `lost` one is silent."""

    UP = "up"
    DRAINED = "drained"
    DOWN = "down"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of a cluster (or one the local engine stands for).

    `name` is unique within all clusters of a control plane; `address` is what peers connect to;
    `capacity.slot_type` names what its slots are.
    """

    name: str
    cluster: str
    address: str
    hostname: str
    capacity: Resources
    pool: str = DEFAULT_POOL
    shard: str | None = None
    state: NodeState = NodeState.UP


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Like nodes scheduled together, with the rules of their queue."""

    name: str = DEFAULT_POOL
    cluster: str
    policy: str = "priority"
    preemption: bool = False
    packing: str = "pack"


def rehearsal_cluster(run_id: str) -> str:
    """The name of the cluster that exists for this run alone."""
    return REHEARSAL_PREFIX + run_id


def admits(cluster: str, wanted: str | None) -> bool:
    """Whether a run whose target names `wanted` (None: any) may use nodes of `cluster`.

    Nodes of a rehearsal are only for runs that name it: "any cluster" never means somebody's rehearsal.
    """
    if wanted is None:
        return not cluster.startswith(REHEARSAL_PREFIX)
    return cluster == wanted
