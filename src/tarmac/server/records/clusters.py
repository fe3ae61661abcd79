"""Converts clusters into records of `tarmac.api`. Called by their routes."""

from collections import Counter
from collections.abc import Iterable, Sequence

from tarmac import api
from tarmac.control.clusters import ClusterReport
from tarmac.control.reports import NodeReport
from tarmac.model.cluster import NodeState, Pool


def cluster_record(report: ClusterReport, *, warnings: Sequence[str] = ()) -> api.Cluster:
    up = [item for item in report.nodes if item.node.state is NodeState.UP]
    return api.Cluster(
        name=report.name,
        engine=report.engine,
        delegated=report.delegated,
        trouble=report.trouble,
        kind=report.kind,
        **_amounts(report.nodes),
        slots_free=sum(item.node.capacity.slots - item.slots_used for item in up),
        pools=[_pool_record(pool, report.nodes) for pool in report.pools],
        node_kinds=_kinds(report.nodes),
        settings=report.settings,
        queues=report.queues,
        warnings=warnings,
    )


def _pool_record(pool: Pool, nodes: Iterable[NodeReport]) -> api.PoolRules:
    within = [item for item in nodes if item.node.pool == pool.name]
    return api.PoolRules(
        name=pool.name,
        **_amounts(within),
        policy=pool.policy,
        preemption=pool.preemption,
        packing=pool.packing,
        guaranteed_s=pool.guaranteed_s,
        backfill_window_s=pool.backfill_window_s,
        share_by=pool.share_by,
        shares=pool.shares,
        half_life_s=pool.half_life_s,
        turn_s=pool.turn_s,
        period_s=pool.period_s,
        floor_s=pool.floor_s,
    )


def _kinds(nodes: Iterable[NodeReport]) -> list[api.NodeKind]:
    """One record for all nodes of the same pool, shard and capacity."""
    kinds: dict[object, list[NodeReport]] = {}
    for item in nodes:
        kinds.setdefault((item.node.pool, item.node.shard, item.node.capacity), []).append(item)
    return [_kind_record(members) for members in kinds.values()]


def _kind_record(members: Sequence[NodeReport]) -> api.NodeKind:
    node = members[0].node
    hostnames = [members[0].node.hostname, members[-1].node.hostname]
    return api.NodeKind(
        pool=node.pool,
        shard=node.shard,
        slot_type=node.capacity.slot_type,
        slots_each=node.capacity.slots,
        cpus_each=node.capacity.cpus,
        memory_bytes_each=node.capacity.memory_bytes,
        **_amounts(members),
        states=Counter(str(item.node.state) for item in members),
        hostnames=hostnames[: len(members)],
    )


def _amounts(nodes: Sequence[NodeReport]) -> dict[str, int]:
    return {
        "nodes": len(nodes),
        "slots": sum(item.node.capacity.slots for item in nodes),
        "slots_used": sum(item.slots_used for item in nodes),
    }
