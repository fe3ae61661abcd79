"""Converts clusters into records of `tarmac.api`. Called by their routes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from tarmac import api
from tarmac.control.cluster_changes import ChangeReport
from tarmac.control.cluster_machines import ClusterStatus
from tarmac.control.clusters import ClusterReport
from tarmac.control.reports import NodeReport
from tarmac.model.cluster import NodeState, Pool
from tarmac.model.machine import MachineReport
from tarmac.server.records.copying import copy_fields
from tarmac.server.records.errors import error_form


def cluster_record(report: ClusterReport, *, warnings: Sequence[str] = ()) -> api.Cluster:
    up = [item for item in report.nodes if item.node.state is NodeState.UP]
    return copy_fields(
        api.Cluster,
        report,
        **_amounts(report.nodes),
        slots_free=sum(item.node.capacity.slots - item.slots_used for item in up),
        pools=[_pool_record(pool, report.nodes) for pool in report.pools],
        node_kinds=_kinds(report.nodes),
        settings=dict(report.settings),
        queues=[copy_fields(api.QueueOffer, offer, terms=dict(offer.terms)) for offer in report.queues],
        warnings=warnings,
    )


def _pool_record(pool: Pool, nodes: Iterable[NodeReport]) -> api.PoolRules:
    within = [item for item in nodes if item.node.pool == pool.name]
    return copy_fields(api.PoolRules, pool, **_amounts(within))


def _kinds(nodes: Iterable[NodeReport]) -> list[api.NodeKind]:
    """One record for all nodes of the same pool, shard and capacity."""
    kinds: dict[object, list[NodeReport]] = {}
    for item in nodes:
        kinds.setdefault((item.node.pool, item.node.shard, item.node.capacity), []).append(item)
    return [_kind_record(members) for members in kinds.values()]


def _kind_record(members: Sequence[NodeReport]) -> api.NodeKind:
    node = members[0].node
    hostnames = [members[0].node.hostname, members[-1].node.hostname]
    return copy_fields(
        api.NodeKind,
        node,
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


def status_record(status: ClusterStatus) -> api.ClusterStatus:
    """The machines of a started cluster."""
    return {
        "cluster": status.cluster.name,
        "engine": status.cluster.engine,
        "machines": [_machine_record(report) for report in status.machines],
        "change": change_record(status.change) if status.change is not None else None,
    }


def change_record(report: ChangeReport) -> api.ClusterChange:
    """The progress of a change."""
    return copy_fields(
        api.ClusterChange,
        report,
        lines=[copy_fields(api.ChangeLine, line) for line in report.lines],
        error=error_form(report.error) if report.error is not None else None,
    )


def _machine_record(report: MachineReport) -> api.ClusterMachine:
    machine = report.machine
    return copy_fields(
        api.ClusterMachine,
        report,
        name=machine.name,
        role=machine.role,
        address=machine.address,
        slots=machine.slots,
    )
