"""The resources that a worker requests and a node has, why a node does not take a run, and measured use.

Used by `dialects` (reading requests), `sched` (fitting them, with reasons) and the engines (offering nodes,
measuring use).
"""

import re
from enum import StrEnum
from functools import lru_cache

from msgspec import Struct

from tarmac.model.codec import StoredRecord

DEFAULT_ROLE = "main"
"""The name of the only role of a run file that lists no roles."""

CPU_ONLY = "cpu"
"""The type of slots without an accelerator (virtual slots)."""

ACCELERATOR = "gpu"
"""The slot type that matches any accelerator, but no virtual slot."""

_ONE_SIZE = {"h100_80gb": "h100", "h200_141gb": "h200", "a10_24gb": "a10", "l4_24gb": "l4", "t4_16gb": "t4"}
"""Types with one size of memory: clusters name them with it or without."""

_WITH_MEMORY = re.compile(r"(.+)[_-]([1-9][0-9]{0,3}gb)", re.ASCII)


class Resources(StoredRecord, frozen=True, kw_only=True):
    """An amount of resources: of one process, one replica, or one node.

    `slot_type` None in a request means any type; `is_of_type` compares types. `cpus` may be fractional in a
    request.
    """

    slots: int = 0
    slot_type: str | None = None
    cpus: float = 0.0
    memory_bytes: int = 0

    @property
    def empty(self) -> bool:
        """Whether nothing is requested: such a role goes to one node and does not count as using it (C3)."""
        return self.slots == 0 and self.cpus == 0 and self.memory_bytes == 0

    def plus(self, other: "Resources") -> "Resources":
        """The sum; the slot type is whichever of the two names one."""
        return Resources(
            slots=self.slots + other.slots,
            slot_type=self.slot_type or other.slot_type,
            cpus=self.cpus + other.cpus,
            memory_bytes=self.memory_bytes + other.memory_bytes,
        )

    def times(self, count: int) -> "Resources":
        """`count` times this amount."""
        return Resources(
            slots=self.slots * count,
            slot_type=self.slot_type,
            cpus=self.cpus * count,
            memory_bytes=self.memory_bytes * count,
        )


@lru_cache(maxsize=1024)
def is_of_type(offered: str | None, target: str | None) -> bool:
    """Whether slots of the `offered` type satisfy a request for the `target` type.

    `a100` asks for one of any memory, `gpu` for any accelerator.
    """
    if target is None or offered == target:
        return True
    if offered is None:
        return False
    if target == ACCELERATOR:
        return offered != CPU_ONLY
    sized = _WITH_MEMORY.fullmatch(offered)
    return (sized is not None and sized[1] == target) or _ONE_SIZE.get(target) == offered


class ReasonCode(StrEnum):
    """Why a node (or a whole cluster) does not take a run now."""

    NO_SUCH_CLUSTER = "no_such_cluster"
    NO_NODES = "no_nodes"  # the cluster has reported no node yet
    OTHER_POOL = "other_pool"
    OTHER_SHARD = "other_shard"
    OTHER_HOSTNAME = "other_hostname"
    OTHER_SLOT_TYPE = "other_slot_type"
    NODE_DRAINED = "node_drained"
    NODE_DOWN = "node_down"
    NODE_LOST = "node_lost"
    NODE_RESERVED = "node_reserved"  # for other users or projects, or for no run
    TOO_SMALL = "too_small"  # even empty, it cannot hold one replica
    BUSY = "busy"  # it could hold one, but other runs hold its slots
    BEHIND = "behind"  # enough is free, but reserved for an earlier run
    GANG = "gang"  # a part of the run fits, and all or none are placed
    RESTS = "rests"  # the run failed, and waits for its next try
    AWAITS = "awaits"  # other runs have to end before
    GROUP_LIMIT = "group_limit"  # its array or experiment holds as much as it may
    LIMIT = "limit"  # its user, project or pool has used up a limit, or its credits


class Reason(Struct, frozen=True, kw_only=True):
    """Why one node does not take a run; `node` None means the run as a whole. `text` is for people."""

    code: ReasonCode
    text: str
    node: str | None = None


class WaitReasons(Struct, frozen=True, kw_only=True):
    """The reasons why a run waits, how many are ordered before it, and what would unblock it."""

    run_id: str
    reasons: tuple[Reason, ...] = ()
    ahead: int = 0
    unblocked_by: str = ""


class UsageKey(Struct, frozen=True, kw_only=True):
    """The user and the project to which usage counts, and the pool in which it was."""

    user: str
    project: str
    cluster: str
    pool: str


class GpuUtilization(Struct, frozen=True, kw_only=True):
    """One GPU: the share of time in which it was busy, and its memory."""

    index: int
    busy_percent: int
    used_bytes: int
    total_bytes: int


class NodeUtilization(Struct, frozen=True, kw_only=True):
    """The workers of an attempt on one node, measured at `at`.

    `memory_bytes` counts pages that processes share once; `cpus` is the average number of busy processors
    since the previous measurement; `gpus` are those of its slots that report their use.
    """

    node: str
    at: float
    memory_bytes: int
    cpus: float
    gpus: tuple[GpuUtilization, ...] = ()
