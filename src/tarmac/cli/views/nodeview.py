"""Nodes as tables: a line for each, or for each group of equal ones. Called by `commands.nodes`."""

from collections.abc import Sequence
from time import localtime, strftime

from tarmac import api
from tarmac.cli.views.amounts import number, size
from tarmac.cli.views.messages import state_cell
from tarmac.cli.views.table import Column, table_text
from tarmac.cli.views.terminal import Terminal


def _reason(node: api.Node) -> str:
    """Why a node takes no work; for a drained one also by whom and when."""
    drain = node.drain
    if drain is None:
        return node.reason
    at = strftime("%Y-%m-%d %H:%M", localtime(drain.at)) if drain.at is not None else ""
    whence = ", ".join(part for part in (drain.user or "", at) if part)
    return f"{drain.reason} ({whence})".strip() if whence else drain.reason


NODES: Sequence[Column[api.Node]] = (
    Column("NODE", lambda node, _: node.name),
    Column("STATE", lambda node, _: state_cell(node.state)),
    Column("FREE", lambda node, _: node.slots - node.slots_used, right=True),
    Column("SLOTS", lambda node, _: node.slots, right=True),
    Column("TYPE", lambda node, _: node.slot_type),
    Column("CLUSTER", lambda node, _: node.cluster),
    Column("POOL", lambda node, _: node.pool),
    Column("SHARD", lambda node, _: node.shard),
    Column("CPUS", lambda node, _: number(node.cpus) if node.cpus else "", right=True, optional=True),
    Column(
        "MEMORY",
        lambda node, _: size(node.memory_bytes) if node.memory_bytes else "",
        right=True,
        optional=True,
    ),
    Column("ADDRESS", lambda node, _: node.address, optional=True),
    Column(
        "HELD BY", lambda node, _: ", ".join(f"{run.name} ({run.slots})" for run in node.runs), flexible=True
    ),
    Column("REASON", lambda node, _: _reason(node)),
)

GROUPS: Sequence[Column[Sequence[api.Node]]] = (
    Column("CLUSTER", lambda nodes, _: nodes[0].cluster),
    Column("POOL", lambda nodes, _: nodes[0].pool),
    Column("SHARD", lambda nodes, _: nodes[0].shard),
    Column("STATE", lambda nodes, _: state_cell(nodes[0].state)),
    Column("NODES", lambda nodes, _: len(nodes), right=True),
    Column("TYPE", lambda nodes, _: nodes[0].slot_type),
    Column("SLOTS", lambda nodes, _: f"{len(nodes)} x {nodes[0].slots}", right=True),
    Column("FREE", lambda nodes, _: sum(node.slots - node.slots_used for node in nodes), right=True),
    Column("IDLE NODES", lambda nodes, _: sum(not node.runs for node in nodes), right=True),
    Column("RUNS", lambda nodes, _: len({run.id for node in nodes for run in node.runs}), right=True),
)


def node_table(known: Sequence[api.Node], terminal: Terminal, *, grouped: bool = False) -> str:
    """A line for each node, or for each group of nodes that are equal except for their runs.

    The pool of a node is shown only if there are several pools.
    """
    if not grouped:
        several_pools = len({node.pool for node in known}) > 1
        return table_text([each for each in NODES if several_pools or each.title != "POOL"], known, terminal)
    groups: dict[tuple[object, ...], list[api.Node]] = {}
    for node in known:
        alike = (node.cluster, node.pool, node.shard, node.state, node.slot_type, node.slots)
        groups.setdefault(alike, []).append(node)
    return table_text(GROUPS, groups.values(), terminal)
