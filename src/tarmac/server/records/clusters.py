"""Clusters as JSON. Called by their routes; `schemas.clusters` describes the same shapes to OpenAPI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tarmac.control.clusters import ClusterReport
from tarmac.control.reports import NodeReport
from tarmac.model.cluster import NodeState, Pool
from tarmac.model.engine_kinds import Finding

Json = dict[str, Any]


def cluster_record(report: ClusterReport, *, warnings: Sequence[str] = ()) -> Json:
    """A `Cluster`."""
    return {
        "name": report.name,
        "engine": report.engine,
        "delegated": report.delegated,
        "trouble": report.trouble,
        "kind": report.kind,
        **_amounts(report.nodes),
        "slots_free": sum(
            item.node.capacity.slots - item.slots_used
            for item in report.nodes
            if item.node.state is NodeState.UP
        ),
        "pools": [_pool_record(pool, report.nodes) for pool in report.pools],
        "node_kinds": _kinds(report.nodes),
        "warnings": list(warnings),
    }


def finding_record(finding: Finding) -> Json:
    """A `Finding`."""
    return {"what": finding.what, "ok": finding.ok, "text": finding.text}


def _pool_record(pool: Pool, nodes: Iterable[NodeReport]) -> Json:
    return {
        "name": pool.name,
        **_amounts([item for item in nodes if item.node.pool == pool.name]),
        "policy": pool.policy,
        "preemption": pool.preemption,
        "packing": pool.packing,
        "guaranteed_s": pool.guaranteed_s,
        "patience_s": pool.patience_s,
        "share_by": pool.share_by,
        "shares": dict(pool.shares),
        "half_life_s": pool.half_life_s,
        "turn_s": pool.turn_s,
        "period_s": pool.period_s,
        "floor_s": pool.floor_s,
    }


def _kinds(nodes: Iterable[NodeReport]) -> list[Json]:
    """A `NodeKind` for all nodes of one pool, shard and capacity."""
    kinds: dict[object, list[NodeReport]] = {}
    for item in nodes:
        kinds.setdefault((item.node.pool, item.node.shard, item.node.capacity), []).append(item)
    return [_kind_record(members) for members in kinds.values()]


def _kind_record(members: Sequence[NodeReport]) -> Json:
    node = members[0].node
    hostnames = [members[0].node.hostname, members[-1].node.hostname]
    return {
        "pool": node.pool,
        "shard": node.shard,
        "slot_type": node.capacity.slot_type,
        "slots_each": node.capacity.slots,
        "cpus_each": node.capacity.cpus,
        "memory_bytes_each": node.capacity.memory_bytes,
        **_amounts(members),
        "states": dict(Counter(str(item.node.state) for item in members)),
        "hostnames": hostnames[: len(members)],
    }


def _amounts(nodes: Sequence[NodeReport]) -> Json:
    return {
        "nodes": len(nodes),
        "slots": sum(item.node.capacity.slots for item in nodes),
        "slots_used": sum(item.slots_used for item in nodes),
    }
