"""Nodes, pools and clusters as facts: what an engine offers and what the scheduler places on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tarmac.model.machine import Machine
from tarmac.model.resources import CPU_ONLY, Resources

LOCAL_CLUSTER = "local"
"""The cluster that is there without any settings."""

LOCAL_ENGINE = "local"
"""The kind of engine that is there without any settings."""

DEFAULT_POOL = "default"

REHEARSAL_PREFIX = "rehearsal-"
"""What the name of a cluster that exists for one run alone begins with; the run's id follows."""


class NodeState(StrEnum):
    """Whether a node takes work: `drained` by a person, `down` by its engine; a `lost` one is silent."""

    UP = "up"
    DRAINED = "drained"
    DOWN = "down"
    LOST = "lost"


class Disks(StrEnum):
    """Where the files of a run lie: on a disk that the nodes of its cluster share, or on each node's own."""

    SHARED = "shared"
    OWN = "own"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Who drained a node, when and why, as far as it is known. `slots`: these alone (none: all of it)."""

    user: str | None = None
    at: float | None = None
    reason: str = ""
    slots: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of a cluster (or one the local engine stands for).

    `name` is unique within all clusters of a control plane; `address` is what peers connect to;
    `capacity.slot_type` names what its slots are. `reason`: why its engine has it down, or why a
    person drained it, where that is known. `drain`: of one that is drained, or some slots of which are.
    """

    name: str
    cluster: str
    address: str
    hostname: str
    capacity: Resources
    pool: str = DEFAULT_POOL
    shard: str | None = None
    state: NodeState = NodeState.UP
    reason: str = ""
    disks: Disks = Disks.SHARED
    drain: Drain | None = None

    @property
    def drained_slots(self) -> int:
        """The slots that take no work while the node does, as a mask."""
        return sum(1 << slot for slot in self.drain.slots) if self.drain is not None else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOffer:
    """What a pool stands for in a cluster with a queue of its own, and what that takes of a run at most.

    `queue` is what the cluster calls it, `terms` what all its jobs say beside (an account and the like).
    `usual_s` is the time of a job that says none. None: there is no limit, or none is known.
    """

    pool: str
    queue: str
    terms: Mapping[str, str] = field(default_factory=dict)
    longest_s: float | None = None
    usual_s: float | None = None
    most_nodes: int | None = None


TURN_S = 90.0
"""How long a turn of a cycle run lasts where nothing else is set."""

HOLD_S = 60
"""How long a job keeps its nodes between two turns, for a server that is slow or restarts."""


class Policy(StrEnum):
    """How the batch runs of a pool are ordered."""

    PRIORITY = "priority"  # priority, then the place in the queue
    FAIR_SHARE = "fair_share"  # who used least of late, by weight
    LEAST_ATTAINED = "least_attained"  # what has run least so far


class Packing(StrEnum):
    """Which of the nodes that could take a run do."""

    PACK = "pack"  # the fullest that still hold it (best fit)
    SPREAD = "spread"  # the emptiest


class ShareBy(StrEnum):
    """Between whom a fair share is fair."""

    USER = "user"
    PROJECT = "project"
    RUN = "run"  # an array, or an experiment with all its trials, counts as one


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """Like nodes scheduled together, with the rules of their queue (docs/operating/scheduler.md tells each).

    `preemption` lets batch runs preempt those ordered after them; nobody is preempted within
    `guaranteed_s` of its start, except by a cycle run. A run that has been passed for `backfill_window_s`, or
    longer, because nobody knows when it can start, has nodes kept for it. `shares` weighs users or projects
    (1 if not named), and nothing where runs share, which have their own weight; what was used counts half
    after `half_life_s`. A cycle run has turns of `turn_s`; interruptible runs share each period of `period_s`
    in blocks no shorter than `floor_s`.
    """

    name: str = DEFAULT_POOL
    cluster: str
    policy: Policy = Policy.PRIORITY
    preemption: bool = False
    packing: Packing = Packing.PACK
    guaranteed_s: float = 300.0
    backfill_window_s: float = 3600.0
    share_by: ShareBy = ShareBy.USER
    shares: Mapping[str, float] = field(default_factory=dict)
    half_life_s: float = 7 * 86_400.0
    turn_s: float = TURN_S
    period_s: float = 7200.0
    floor_s: float = 300.0

    @property
    def key(self) -> tuple[str, str]:
        """Cluster and name: a pool is one of a cluster."""
        return self.cluster, self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Like nodes in the description of a cluster that the local engine stands for.

    `hostnames`, where given, are one for each node; else they are called by `prefix` and a number. `cpus`
    and `memory_bytes` of None are those of this machine.
    """

    nodes: int
    slots: int
    slot_type: str = CPU_ONLY
    cpus: float | None = None
    memory_bytes: int | None = None
    pool: str = DEFAULT_POOL
    shard: str | None = None
    hostnames: tuple[str, ...] = ()
    prefix: str = "node"
    disks: Disks = Disks.SHARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """A cluster as it was described: where it comes from, and the rules of those pools that have their own.

    `engine` is the kind of its engine, which reads the `settings`; `credentials` say by what names of secrets
    it gets in, never what they are. `groups` are its nodes, for an engine that stands for them; others find
    theirs. `assigned` is what its engine gave it when it was added; `server` names the server that it was
    added to, by that server's own cluster. `machines` are those that it was started on, where it was.
    """

    name: str
    groups: tuple[NodeGroup, ...] = ()
    pools: tuple[Pool, ...] = ()
    engine: str = LOCAL_ENGINE
    settings: Mapping[str, Any] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict)
    assigned: Mapping[str, str] = field(default_factory=dict)
    server: str = LOCAL_CLUSTER
    machines: tuple[Machine, ...] = ()


def rehearsal_cluster(run_id: str) -> str:
    """The name of the cluster that exists for this run alone."""
    return REHEARSAL_PREFIX + run_id


def admits(cluster: str, target: str | None) -> bool:
    """Whether a run whose target names `target` (None: any) may use nodes of `cluster`.

    Nodes of a rehearsal are only for runs that name it: "any cluster" never means somebody's rehearsal.
    """
    if target is None:
        return not cluster.startswith(REHEARSAL_PREFIX)
    return cluster == target
