"""Clusters, their pools with queues, nodes by kind and machines, and changes to them. Read by the client."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from msgspec import Struct, field

from tarmac.api.placement import NamedRun
from tarmac.api.server import ErrorForm
from tarmac.model import cluster
from tarmac.model.abilities import KeptImage
from tarmac.model.array import AwaitedRun
from tarmac.model.cluster import MachineStatus, NodeStatus, Policy, QueueOffer
from tarmac.model.lifecycle import Mode, RunState
from tarmac.model.progress import NativeStatus
from tarmac.model.reservations import ReservedNodes


class Estimate(Struct, frozen=True, kw_only=True):
    """The likely start of a queued run, and its latest start; None: not known.

    `basis` is a value of `sched.EstimateBasis`: `time limits`, `history`, `cluster` (it has a queue of its
    own, which reports the start), `unknown` or `too far`.
    """

    start_at: float | None
    latest_at: float | None
    basis: str


class QueueEntry(Struct, frozen=True, kw_only=True):
    """One line of the queue of a pool. `number` counts from 1, in scheduling order, holdings included.

    `slots_acquired` of `slots_needed` are held now. `estimate` is the likely start of a queued run (None: it
    holds its slots), `retry_at` the end of the pause after a failure; `native` is the status in the queue of
    a cluster that has its own; `awaits` are the runs that have to end before it may start.

    The line of a whole array has the id of the array, the sums of slots, and the number of `members` in each
    state, in any pool; its other fields are those of the first member, and `estimate` that of the next one to
    start.
    """

    number: int
    id: str
    name: str
    mode: Mode
    priority: int
    weight: float
    submitted_at: float
    slots_acquired: int
    slots_needed: int
    state: RunState
    user: str
    project: str
    retry_at: float | None = None
    array_id: str | None = None
    array_index: int | None = None
    awaits: tuple[AwaitedRun, ...] = ()
    estimate: Estimate | None = None
    native: NativeStatus | None = None
    members: Mapping[str, int] = field(default_factory=dict)


class QueuePool(Struct, frozen=True, kw_only=True):
    """The queue of one pool, or a part of it, with the rules that explain its order.

    `total` counts all its requested runs, listed or not. `next` is the `after` of the next page (null: none).
    """

    cluster: str
    pool: str
    policy: Policy
    preemption: bool
    total: int
    runs: tuple[QueueEntry, ...]
    next: int | None = None


class ClusterKind(StrEnum):
    """The origin of a cluster."""

    OWN = "own"  # the engine's: this machine, or the cluster in the settings
    ADDED = "added"  # described and added by a person
    REHEARSAL = "rehearsal"  # for one run alone


class PoolRules(
    cluster.PoolRules, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False
):
    """A pool of a cluster: its nodes and slots, and the rules of its queue."""

    nodes: int
    slots: int
    slots_used: int


class Amounts(Struct, frozen=True, kw_only=True):
    """The nodes of a cluster or of a part of it, their slots, and how many of those are in use."""

    nodes: int
    slots: int
    slots_used: int


class NodeKind(Amounts, frozen=True, kw_only=True):
    """Similar nodes of a cluster.

    `states` counts them by state; `hostnames` are the first and the last of them.
    """

    pool: str
    shard: str | None
    slot_type: str | None
    slots_each: int
    cpus_each: float
    memory_bytes_each: int
    states: Mapping[str, int]
    hostnames: Sequence[str]


class Cluster(Amounts, frozen=True, kw_only=True):
    """A cluster, its pools and its nodes by kind. Only the answer to a change has `warnings` (of its file).

    `delegated`: it has a queue of its own, and `queues` are those of its pools. `trouble` is the reason why
    its engine did not answer, or null; `slots_free` counts those of nodes that are up. `settings` are its
    engine's.
    """

    name: str
    engine: str
    delegated: bool
    trouble: str | None
    kind: ClusterKind
    slots_free: int
    pools: Sequence[PoolRules]
    node_kinds: Sequence[NodeKind]
    settings: Mapping[str, Any]
    queues: Sequence[QueueOffer]
    warnings: Sequence[str]


class ClusterMachine(MachineStatus, frozen=True, kw_only=True):
    """A machine of a cluster that was started over SSH, and since when its process runs.

    `role` is `head` or `worker`; `problem` is the reason for a state other than up.
    """

    name: str
    role: str
    address: str | None
    slots: int | None


class ChangeKind(StrEnum):
    """The kind of a change to a cluster."""

    UP = "up"
    DOWN = "down"


class ChangeState(StrEnum):
    """The state of a change."""

    WORKING = "working"
    DONE = "done"
    FAILED = "failed"


class ChangeLine(Struct, frozen=True):
    """One line on what was done on a machine."""

    machine: str
    text: str


class ClusterChange(Struct, frozen=True, kw_only=True):
    """A cluster that is being started, changed or ended.

    `lines` are those from the requested number on, `next` the number of the line after them.
    """

    cluster: str
    kind: ChangeKind
    state: ChangeState
    began_at: float
    lines: Sequence[ChangeLine]
    next: int
    error: ErrorForm | None


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """The machines of a cluster that was started over SSH, and the change in progress, if any."""

    cluster: str
    engine: str
    machines: Sequence[ClusterMachine]
    change: ClusterChange | None


class ImageList(Struct, frozen=True, kw_only=True):
    """The images of the nodes; `troubles` has the reasons of clusters that report none."""

    images: Sequence[KeptImage]
    troubles: Mapping[str, str]


class NodeRun(NamedRun, frozen=True, kw_only=True):
    """A run that holds resources on a node; `indexes` are those of its slots."""

    user: str
    slots: int
    indexes: tuple[int, ...]


class Reservation(ReservedNodes, frozen=True, kw_only=True):
    """A reservation of nodes: from `begin_at` until `end_at` only runs of its users and projects use them.

    `still_there`: runs on its nodes that it does not admit, and that need not have left by its begin. `user`
    made it, at `at`.
    """

    still_there: tuple[NodeRun, ...]


class Node(NodeStatus, frozen=True, kw_only=True):
    """A machine and its runs. `reason`: why it is down or drained, if known (else "").

    `own_disk`: the files of runs are on a disk of its own, not on one that nodes share.
    """

    slot_type: str | None
    slots: int
    slots_used: int
    cpus: float
    memory_bytes: int
    own_disk: bool
    runs: tuple[NodeRun, ...]
