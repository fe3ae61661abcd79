"""Nodes, pools, machines and clusters as facts: described by users or offered by engines, used by `sched`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tarmac.model.codec import StoredRecord, replace
from tarmac.model.reservations import NodeReservation
from tarmac.model.resources import CPU_ONLY, Resources

LOCAL_CLUSTER = "local"
"""The cluster that exists without any settings."""

LOCAL_ENGINE = "local"
"""The kind of engine that exists without any settings."""

DEFAULT_POOL = "default"

REHEARSAL_PREFIX = "rehearsal-"
"""The prefix of a cluster's name that exists for one run alone; the run's id follows."""

BURST_PREFIX = "burst-"
"""The prefix of the name of a cluster that is rented for one run; the run's id follows."""

OF_ONE_RUN = (REHEARSAL_PREFIX, BURST_PREFIX)

MOST_NODES = 1 << 16


FIRST_ADDRESS = "first_address"
"""The assigned key that has the address of a cluster's first node; the others follow."""

MOST_CLUSTERS = 4096
"""The number of clusters whose nodes an engine remembers."""

MachineProgress = Callable[[str, str], None]
"""Called with the name of a machine and one line on what was done there."""


class NodeState(StrEnum):
    """Whether a node takes work. A person drains it, its engine has it `down`, and a `lost` one is silent."""

    UP = "up"
    DRAINED = "drained"
    DOWN = "down"
    LOST = "lost"


class Disks(StrEnum):
    """The disk that has the files of a run: one that the nodes of its cluster share, or each node's own."""

    SHARED = "shared"
    OWN = "own"


class Drain(Struct, frozen=True, kw_only=True):
    """The user, time and reason of a drain, as far as known. `slots`: these alone (empty: the whole node)."""

    user: str | None = None
    at: float | None = None
    reason: str = ""
    slots: tuple[int, ...] = ()


class NodeStatus(Struct, frozen=True, kw_only=True):
    """One machine of a cluster (or one that the local engine simulates), and whether it takes work.

    `name` is unique within all clusters of a control plane; peers connect to `address`. `reason` is why its
    engine has it down, or why a person drained it, if known. `drain` is set if the node or some of its slots
    are drained. `reservations` are in order of their begin.
    """

    name: str
    cluster: str
    pool: str = DEFAULT_POOL
    shard: str | None = None
    hostname: str
    address: str
    state: NodeState = NodeState.UP
    reason: str = ""
    drain: Drain | None = None
    reservations: tuple[NodeReservation, ...] = ()


class Node(NodeStatus, frozen=True, kw_only=True):
    """A node with its resources; `capacity.slot_type` is the type of its slots."""

    capacity: Resources
    disks: Disks = Disks.SHARED

    @property
    def drained_slots(self) -> int:
        """The slots that take no work although the node does, as a mask."""
        return sum(1 << slot for slot in self.drain.slots) if self.drain is not None else 0


class QueueOffer(Struct, frozen=True, kw_only=True):
    """The queue of a cluster for a pool, and the limits of that queue.

    `queue` is its name in the cluster; `terms` are further settings of all its jobs (an account and the
    like). `usual_s` is the time of a job that sets none. None: there is no limit, or none is known.
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
    FAIR_SHARE = "fair_share"  # the least recent usage by weight first
    LEAST_ATTAINED = "least_attained"  # the least used run first


class Packing(StrEnum):
    """The choice among nodes that fit a run."""

    PACK = "pack"  # the fullest nodes that fit it (best fit)
    SPREAD = "spread"  # the emptiest nodes


class ShareBy(StrEnum):
    """The entities of a fair share."""

    USER = "user"
    PROJECT = "project"
    RUN = "run"  # an array, or an experiment with all its trials, counts as one


class PoolRules(StoredRecord, frozen=True, kw_only=True):
    """The rules of the queue of a pool, which is similar nodes that are scheduled together (see
    docs/operating/scheduler.md).

    `preemption` lets batch runs preempt those ordered after them. No run is preempted within `guaranteed_s`
    of its start, except by a cycle run. A run without a predictable start that others have overtaken for
    `backfill_window_s` gets reserved nodes. `shares` weighs users or projects (1 if not named); runs that
    share have their own weight instead. Past usage counts half after `half_life_s`. A cycle run has turns of
    `turn_s`; interruptible runs share each period of `period_s` in blocks no shorter than `floor_s`. A run
    that uses none of its slots for `idle_report_s` is reported to its owner, for `idle_pause_s` paused (None:
    never). Accounts of credits are charged `credits_per_slot_hour`.
    """

    name: str = DEFAULT_POOL
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
    idle_report_s: float | None = None
    idle_pause_s: float | None = None
    credits_per_slot_hour: float = 1.0


class Pool(PoolRules, frozen=True, kw_only=True):
    """A pool of a cluster: its nodes are those that name it."""

    cluster: str

    @property
    def key(self) -> tuple[str, str]:
        """Cluster and name, because pool names are unique within a cluster only."""
        return self.cluster, self.name


class EqualNodes(StoredRecord, frozen=True, kw_only=True):
    """A number of equal nodes; `hostnames`, if given, are one for each.

    `cpus` and `memory_bytes` of None are those of this machine.
    """

    nodes: int
    slots: int
    slot_type: str = CPU_ONLY
    cpus: Annotated[float, Meta(ge=0)] | None = None
    memory_bytes: int | None = None
    pool: str = DEFAULT_POOL
    shard: str | None = None
    hostnames: tuple[str, ...] = ()


class NodeGroup(EqualNodes, frozen=True, kw_only=True):
    """Equal nodes of a simulated cluster. Without `hostnames`, their names are `prefix` and a number."""

    prefix: str = "node"
    disks: Disks = Disks.SHARED


class Cluster(StoredRecord, frozen=True, kw_only=True):
    """A cluster as it was described: its engine, its nodes, and the rules of pools that have their own.

    `engine` is the kind of its engine, which reads the `settings`; `credentials` name the secrets for its
    access, never their values. `groups` are its nodes for an engine that simulates them; other engines find
    theirs. `assigned` has what its engine assigned to it when the user `added_by` added it; `server` names
    the server that it was added to, by that server's own cluster. `machines` are those that it was started
    on, if any.
    """

    name: str
    groups: tuple[NodeGroup, ...] = ()
    pools: tuple[Pool, ...] = ()
    engine: str = LOCAL_ENGINE
    settings: Mapping[str, Any] = field(default_factory=dict)
    credentials: Mapping[str, str] = field(default_factory=dict)
    added_by: str = ""
    assigned: Mapping[str, str] = field(default_factory=dict)
    server: str = LOCAL_CLUSTER
    machines: tuple[Machine, ...] = ()


def rehearsal_cluster(run_id: str) -> str:
    """The name of the cluster that exists for this run alone."""
    return REHEARSAL_PREFIX + run_id


def admits(cluster: str, target: str | None) -> bool:
    """Whether a run whose target names `target` (None: any) may use nodes of `cluster`.

    Nodes of a rehearsal, and rented ones, are only for runs that name their cluster: "any cluster" never
    means one that exists for another run.
    """
    if target is None:
        return not cluster.startswith(OF_ONE_RUN)
    return cluster == target


def node_name(cluster: str, hostname: str) -> str:
    """The name of a node: in the local cluster its host name alone."""
    if cluster == LOCAL_CLUSTER:
        return hostname
    return f"{hostname}.{cluster.removeprefix(REHEARSAL_PREFIX)}"


def renamed(cluster: Cluster, name: str) -> Cluster:
    """The same cluster by another name."""
    return replace(cluster, name=name, pools=tuple(replace(pool, cluster=name) for pool in cluster.pools))


def hostnames_of(groups: tuple[NodeGroup, ...]) -> Iterator[tuple[NodeGroup, str]]:
    """Every node's group and host name, in order. Nodes without a name of their own are counted by prefix."""
    counted: Counter[str] = Counter()
    for group in groups:
        if group.hostnames:
            yield from ((group, hostname) for hostname in group.hostnames)
            continue
        for _ in range(group.nodes):
            counted[group.prefix] += 1
            yield group, f"{group.prefix}{counted[group.prefix]}"


class NodeCache:
    """Nodes by cluster, made again only after a description changed."""

    def __init__(self, make: Callable[[Cluster], tuple[Node, ...]]) -> None:
        self._make = make
        self._cache: dict[str, tuple[Cluster, tuple[Node, ...]]] = {}

    def nodes(self, cluster: Cluster) -> tuple[Node, ...]:
        """The nodes of a cluster: the same object as before if its description is unchanged."""
        known = self._cache.get(cluster.name)
        if known is not None and (known[0] is cluster or known[0] == cluster):
            return known[1]
        nodes = self._make(cluster)
        if len(self._cache) >= MOST_CLUSTERS:
            self._cache.clear()  # rehearsals come and go; nodes of those that remain are made again
        self._cache[cluster.name] = cluster, nodes
        return nodes

    def forget(self) -> None:
        """Make everything again, because of a change of the nodes that is in no description."""
        self._cache.clear()


def described_nodes(
    cluster: Cluster, *, first_address: str, cpus: float, memory_bytes: int
) -> tuple[Node, ...]:
    """The nodes of a described cluster, on consecutive addresses.

    `cpus` and `memory_bytes` apply to nodes whose group has none.
    """
    first = int.from_bytes(bytes(map(int, first_address.split("."))))
    return tuple(
        Node(
            name=node_name(cluster.name, hostname),
            cluster=cluster.name,
            address=".".join(map(str, (first + number).to_bytes(4))),
            hostname=hostname,
            capacity=Resources(
                slots=group.slots,
                slot_type=group.slot_type,
                cpus=cpus if group.cpus is None else group.cpus,
                memory_bytes=memory_bytes if group.memory_bytes is None else group.memory_bytes,
            ),
            pool=group.pool,
            shard=group.shard,
            disks=group.disks,
        )
        for number, (group, hostname) in enumerate(hostnames_of(cluster.groups))
    )


class Machine(StoredRecord, frozen=True, kw_only=True):
    """One machine of a cluster that is started over SSH; `name` and `user` as `ssh` takes them.

    Others connect to its `address`; None: the one at which `ssh` reached it. `slots` and `cpus` of None are
    those found there. `python` is the interpreter, `directory` the place of the cluster's files.
    """

    name: str
    user: str | None = None
    head: bool = False
    port: int | None = None
    slots: int | None = None
    cpus: int | None = None
    address: str | None = None
    python: str | None = None
    directory: str | None = None

    @property
    def target(self) -> str:
        """The argument of `ssh` to reach it."""
        return self.name if self.user is None else f"{self.user}@{self.name}"

    @property
    def role(self) -> str:
        """Its role in its cluster."""
        return "head" if self.head else "worker"


class MachineState(StrEnum):
    """Whether the cluster's process runs on a machine; it may also run on an UNREACHABLE one."""

    UP = "up"
    DOWN = "down"
    UNREACHABLE = "unreachable"


class MachineStatus(Struct, frozen=True, kw_only=True):
    """The state of a machine, since when its process runs, and the reason for a state other than up."""

    state: MachineState
    pid: int | None = None
    since: float | None = None
    problem: str | None = None


class MachineReport(MachineStatus, frozen=True, kw_only=True):
    """The status of a machine, as its engine found it."""

    machine: Machine


class Finding(Struct, frozen=True, kw_only=True):
    """The check of one thing that a cluster needs; `text` says what was found or is missing."""

    what: str
    ok: bool
    text: str
