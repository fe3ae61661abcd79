"""Clusters as tables: a line for each, or a page of one with its pools and nodes, for `tarmac clusters`."""

import json
from collections.abc import Sequence

from tarmac import api
from tarmac.cli.views.amounts import age, counted, duration, number, size
from tarmac.cli.views.table import Cell, Column, table_text
from tarmac.cli.views.terminal import Terminal, one_line
from tarmac.model.cluster import Policy, QueueOffer
from tarmac.model.engine_kinds import Finding

_KIND_TEXTS = {"own": "this machine's own", "added": "added", "rehearsal": "for one run alone"}

UNCOUNTED_BYTES = 1 << 50
"""Memory from this size on means that it was not counted."""


def _types(cluster: api.Cluster) -> str:
    return ", ".join(dict.fromkeys(kind.slot_type or "any" for kind in cluster.node_kinds))


def _shares(pool: api.PoolRules) -> str:
    if pool.policy is not Policy.FAIR_SHARE:
        return ""
    shares = [f"{who} {number(share)}" for who, share in pool.shares.items()]
    return ", ".join([f"by {pool.share_by}", *shares, f"half after {duration(pool.half_life_s)}"])


def _states(kind: api.NodeKind) -> str:
    up = kind.states.get("up", 0)
    away = [f"{count} {state}" for state, count in kind.states.items() if state != "up"]
    return ", ".join(([f"{up} up"] if up and away else ["up"] if up else []) + away)


def _memory(kind: api.NodeKind) -> str:
    return size(kind.memory_bytes_each) if 0 < kind.memory_bytes_each < UNCOUNTED_BYTES else ""


CLUSTERS: Sequence[Column[api.Cluster]] = (
    Column("CLUSTER", lambda cluster, _: cluster.name),
    Column("ENGINE", lambda cluster, _: cluster.engine),
    Column("NODES", lambda cluster, _: cluster.nodes, right=True),
    Column("FREE", lambda cluster, _: cluster.slots_free, right=True),
    Column("SLOTS", lambda cluster, _: cluster.slots, right=True),
    Column("TYPES", lambda cluster, _: _types(cluster)),
    Column("POOLS", lambda cluster, _: ", ".join(pool.name for pool in cluster.pools), flexible=True),
)

POOLS: Sequence[Column[api.PoolRules]] = (
    Column("POOL", lambda pool, _: pool.name),
    Column("NODES", lambda pool, _: pool.nodes, right=True),
    Column("USED", lambda pool, _: pool.slots_used, right=True),
    Column("SLOTS", lambda pool, _: pool.slots, right=True),
    Column("POLICY", lambda pool, _: pool.policy),
    Column("PREEMPTION", lambda pool, _: "on" if pool.preemption else "off"),
    Column("PACKING", lambda pool, _: pool.packing),
    Column("GUARANTEED", lambda pool, _: duration(pool.guaranteed_s), right=True, optional=True),
    Column("PATIENCE", lambda pool, _: duration(pool.backfill_window_s), right=True, optional=True),
    Column("TURN", lambda pool, _: duration(pool.turn_s), right=True),
    Column("PERIOD", lambda pool, _: duration(pool.period_s), right=True),
    Column("FLOOR", lambda pool, _: duration(pool.floor_s), right=True, optional=True),
    Column("SHARES", lambda pool, _: _shares(pool), flexible=True),
)

QUEUES: Sequence[Column[QueueOffer]] = (
    Column("POOL", lambda offer, _: offer.pool),
    Column("QUEUE", lambda offer, _: offer.queue),
    Column("LONGEST", lambda offer, _: duration(offer.longest_s) or "no limit known", right=True),
    Column("USUAL", lambda offer, _: duration(offer.usual_s), right=True),
    Column("NODES", lambda offer, _: offer.most_nodes, right=True),
    Column(
        "TERMS",
        lambda offer, _: ", ".join(f"{name} {value}" for name, value in offer.terms.items()),
        flexible=True,
    ),
)

KINDS: Sequence[Column[api.NodeKind]] = (
    Column("POOL", lambda kind, _: kind.pool),
    Column("SHARD", lambda kind, _: kind.shard),
    Column("NODES", lambda kind, _: kind.nodes, right=True),
    Column("EACH", lambda kind, _: f"{kind.slots_each} {kind.slot_type or 'any'}"),
    Column("USED", lambda kind, _: kind.slots_used, right=True),
    Column("SLOTS", lambda kind, _: kind.slots, right=True),
    Column("STATE", lambda kind, _: _states(kind)),
    Column(
        "CPUS", lambda kind, _: number(kind.cpus_each) if kind.cpus_each else "", right=True, optional=True
    ),
    Column("MEMORY", lambda kind, _: _memory(kind), right=True, optional=True),
    Column("HOSTS", lambda kind, _: " ... ".join(kind.hostnames), flexible=True),
)

_COLOURS = {"up": "green", "down": "red", "unreachable": "yellow"}
MACHINES: Sequence[Column[api.ClusterMachine]] = (
    Column("HOST", lambda machine, _: machine.name),
    Column("ROLE", lambda machine, _: machine.role),
    Column("RAY", lambda machine, _: Cell(machine.state, _COLOURS[machine.state])),
    Column("SINCE", lambda machine, now: age(machine.since, now)),
    Column("SLOTS", lambda machine, _: machine.slots, right=True),
    Column("PID", lambda machine, _: machine.pid or "", right=True),
    Column("ADDRESS", lambda machine, _: machine.address),
    Column("PROBLEM", lambda machine, _: machine.problem, flexible=True),
)

FINDINGS: Sequence[Column[Finding]] = (
    Column("", lambda found, _: Cell("ok", "green") if found.ok else Cell("missing", "red")),
    Column("WHAT", lambda found, _: found.what),
    Column("FOUND", lambda found, _: found.text, flexible=True),
)


def cluster_page(cluster: api.Cluster, terminal: Terminal) -> str:
    """The page of one cluster: its pools with the rules of their queues, and its nodes, equal ones joined."""
    own_queues = table_text(QUEUES, cluster.queues, terminal)
    pools = own_queues if cluster.delegated else table_text(POOLS, cluster.pools, terminal)
    shown = ((name, value) for name, value in cluster.settings.items() if name != "pools")
    texts = ((name, value if isinstance(value, str) else json.dumps(value)) for name, value in shown)
    settings = "\n".join(f"  {name}: {one_line(text)}" for name, text in texts)
    parts = [cluster_line(cluster), settings, pools, table_text(KINDS, cluster.node_kinds, terminal)]
    return "\n\n".join(part for part in parts if part)


def cluster_line(cluster: api.Cluster) -> str:
    """A cluster in one sentence."""
    kind, free = _KIND_TEXTS[cluster.kind], f"{cluster.slots_free} of {cluster.slots} slots free"
    if cluster.delegated:
        kind, free = "with a queue of its own", f"{cluster.slots} slots"
    where = f"{counted(cluster.nodes, 'node')} in {counted(len(cluster.pools), 'pool')}"
    trouble = f"; it does not answer now: {cluster.trouble}" if cluster.trouble else ""
    return one_line(f"{cluster.name} ({cluster.engine}, {kind}): {where}, {free}{trouble}")


def change_line(line: api.ChangeLine) -> str:
    """A step of a change on a server."""
    return one_line(f"{line.machine}: {line.text}")
