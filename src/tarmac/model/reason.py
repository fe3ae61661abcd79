"""Why a node, or a whole cluster, does not take a run. Made by `sched`, and a part of answers of the API."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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
    TOO_SMALL = "too_small"  # even empty, it cannot hold one replica
    BUSY = "busy"  # it could hold one, but other runs hold its slots
    BEHIND = "behind"  # enough is free, but reserved for an earlier run
    GANG = "gang"  # a part of the run fits, and all or none are placed
    RESTS = "rests"  # the run failed, and waits for its next try
    AWAITS = "awaits"  # other runs have to end before
    GROUP_LIMIT = "group_limit"  # its array or experiment holds as much as it may


class Reason(Struct, frozen=True, kw_only=True):
    """Why one node does not take a run; `node` None means the run as a whole. `text` is for people."""

    code: ReasonCode
    text: str
    node: str | None = None
