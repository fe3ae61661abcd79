"""Clusters as tables: a line for each, or a page of one with its pools and nodes, for `tarmac clusters`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tarmac.cli.views.amounts import age, duration, number, size
from tarmac.cli.views.table import Cell, heads, render
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.model.cluster import Policy

if TYPE_CHECKING:
    from tarmac import api
    from tarmac.model.cluster import QueueOffer
    from tarmac.model.engine_kinds import Finding

_CLUSTERS = heads(
    "CLUSTER, ENGINE, NODES, FREE, SLOTS, TYPES, POOLS", right="NODES, FREE, SLOTS", flexible="POOLS"
)
_POOLS = heads(
    "POOL, NODES, USED, SLOTS, POLICY, PREEMPTION, PACKING, GUARANTEED, PATIENCE, TURN, PERIOD, FLOOR,"
    " SHARES",
    right="NODES, USED, SLOTS, GUARANTEED, PATIENCE, TURN, PERIOD, FLOOR",
    flexible="SHARES",
    optional="GUARANTEED, PATIENCE, FLOOR",
)
_KINDS = heads(
    "POOL, SHARD, NODES, EACH, USED, SLOTS, STATE, CPUS, MEMORY, HOSTS",
    right="NODES, USED, SLOTS, CPUS, MEMORY",
    flexible="HOSTS",
    optional="CPUS, MEMORY",
)


_QUEUES = heads("POOL, QUEUE, LONGEST, USUAL, NODES, TERMS", right="LONGEST, USUAL, NODES", flexible="TERMS")

_MACHINES = heads(
    "HOST, ROLE, RAY, SINCE, SLOTS, PID, ADDRESS, PROBLEM", right="SLOTS, PID", flexible="PROBLEM"
)

_FINDINGS = heads(", WHAT, FOUND", flexible="FOUND")


_KIND_TEXTS = {"own": "this machine's own", "added": "added", "rehearsal": "for one run alone"}

UNCOUNTED_BYTES = 1 << 50
"""Memory from this size on means that it was not counted."""


def cluster_table(clusters: Sequence[api.Cluster], terminal: Terminal) -> str:
    """A line for each cluster."""
    rows = (
        (
            cluster.name,
            cluster.engine,
            str(cluster.nodes),
            str(cluster.slots_free),
            str(cluster.slots),
            ", ".join(_types(cluster)),
            ", ".join(pool.name for pool in cluster.pools),
        )
        for cluster in clusters
    )
    return render(_CLUSTERS, rows, terminal)


def cluster_page(cluster: api.Cluster, terminal: Terminal) -> str:
    """The page of one cluster: its pools with the rules of their queues, and its nodes, equal ones joined."""
    if cluster.delegated:
        pools = render(_QUEUES, (tuple(_queue_row(offer)) for offer in cluster.queues), terminal)
    else:
        pools = render(_POOLS, (tuple(_pool_row(pool)) for pool in cluster.pools), terminal)
    kinds = render(_KINDS, (tuple(_kind_row(kind)) for kind in cluster.node_kinds), terminal)
    settings = "\n".join(
        f"  {name}: {_shown(value)}" for name, value in cluster.settings.items() if name != "pools"
    )
    parts = [cluster_line(cluster), settings, pools, kinds]
    return "\n\n".join(part for part in parts if part)


def cluster_line(cluster: api.Cluster) -> str:
    """A cluster in one sentence."""
    nodes, free, slots = cluster.nodes, cluster.slots_free, cluster.slots
    pools = len(cluster.pools)
    kind = _KIND_TEXTS[cluster.kind]
    trouble = f"; it does not answer now: {cluster.trouble}" if cluster.trouble else ""
    if cluster.delegated:
        return one_line(
            f"{cluster.name} ({cluster.engine}, with a queue of its own): {nodes} node"
            f"{'s' if nodes != 1 else ''} in {pools} pool{'s' if pools != 1 else ''}, {slots} slots{trouble}"
        )
    return one_line(
        f"{cluster.name} ({cluster.engine}, {kind}): {nodes} node{'s' if nodes != 1 else ''} in "
        f"{pools} pool{'s' if pools != 1 else ''}, {free} of {slots} slots free{trouble}"
    )


def machine_table(status: api.ClusterStatus, terminal: Terminal, *, now: float) -> str:
    """A line for each server of a started cluster."""
    colours = {"up": "green", "down": "red", "unreachable": "yellow"}
    rows = (
        (
            machine.name,
            machine.role,
            Cell(machine.state, colours[machine.state]),
            age(machine.since, now) if machine.since is not None else "",
            str(machine.slots) if machine.slots is not None else "",
            str(machine.pid or ""),
            machine.address or "",
            one_line(machine.problem or ""),
        )
        for machine in status.machines
    )
    return render(_MACHINES, rows, terminal)


def change_line(line: api.ChangeLine) -> str:
    """A step of a change on a server."""
    return one_line(f"{line.machine}: {line.text}")


def findings_table(findings: Sequence[Finding], terminal: Terminal) -> str:
    """A line for each check."""
    rows = (
        (Cell("ok", "green") if found.ok else Cell("missing", "red"), found.what, found.text)
        for found in findings
    )
    return render(_FINDINGS, rows, terminal)


def _types(cluster: api.Cluster) -> list[str]:
    return list(dict.fromkeys(kind.slot_type or "any" for kind in cluster.node_kinds))


def _shown(value: object) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value))


def _queue_row(offer: QueueOffer) -> Iterator[str]:
    """A pool by its name in the cluster, with its limits."""
    yield from (offer.pool, offer.queue)
    longest_s, usual_s, most_nodes = offer.longest_s, offer.usual_s, offer.most_nodes
    yield duration(longest_s) if longest_s is not None else "no limit known"
    yield duration(usual_s) if usual_s is not None else ""
    yield str(most_nodes) if most_nodes is not None else ""
    yield ", ".join(f"{name} {value}" for name, value in offer.terms.items())


def _pool_row(pool: api.PoolRules) -> Iterator[str]:
    fair = pool.policy is Policy.FAIR_SHARE
    shares = [f"{who} {number(share)}" for who, share in pool.shares.items()]
    yield from (pool.name, str(pool.nodes), str(pool.slots_used), str(pool.slots))
    yield from (pool.policy, "on" if pool.preemption else "off", pool.packing)
    yield from (duration(pool.guaranteed_s), duration(pool.backfill_window_s))
    yield from (duration(pool.turn_s), duration(pool.period_s), duration(pool.floor_s))
    halved = f"half after {duration(pool.half_life_s)}"
    yield ", ".join([f"by {pool.share_by}", *shares, halved]) if fair else ""


def _kind_row(kind: api.NodeKind) -> Iterator[str]:
    up = kind.states.get("up", 0)
    away = [f"{count} {state}" for state, count in kind.states.items() if state != "up"]
    yield from (kind.pool, kind.shard or "", str(kind.nodes))
    yield f"{kind.slots_each} {kind.slot_type or 'any'}"
    yield from (str(kind.slots_used), str(kind.slots))
    yield ", ".join(([f"{up} up"] if up and away else ["up"] if up else []) + away)
    yield number(kind.cpus_each) if kind.cpus_each else ""
    yield size(kind.memory_bytes_each) if 0 < kind.memory_bytes_each < UNCOUNTED_BYTES else ""
    yield " ... ".join(kind.hostnames)
