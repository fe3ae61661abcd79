"""Nodes as tables: a line for each, or for each group of equal ones. Called by `commands.nodes`."""

from __future__ import annotations

from collections.abc import Sequence
from time import localtime, strftime
from typing import TYPE_CHECKING

from tarmac.cli.views.amounts import number, size
from tarmac.cli.views.messages import state_cell
from tarmac.cli.views.table import heads, render
from tarmac.cli.views.terminal import Terminal

if TYPE_CHECKING:
    from tarmac import api

_NODES = heads(
    "NODE, STATE, FREE, SLOTS, TYPE, CLUSTER, POOL, SHARD, CPUS, MEMORY, ADDRESS, HELD BY, REASON",
    right="FREE, SLOTS, CPUS, MEMORY",
    flexible="HELD BY",
    optional="CPUS, MEMORY, ADDRESS",
)
_GROUPS = heads(
    "CLUSTER, POOL, SHARD, STATE, NODES, TYPE, SLOTS, FREE, IDLE NODES, RUNS",
    right="NODES, SLOTS, FREE, IDLE NODES, RUNS",
)


def node_table(known: Sequence[api.Node], terminal: Terminal) -> str:
    """A line for each node; its pool is shown only if there are several pools."""
    several_pools = len({node.pool for node in known}) > 1
    rows = (
        (
            node.name,
            state_cell(node.state),
            str(node.slots - node.slots_used),
            str(node.slots),
            node.slot_type or "",
            node.cluster,
            node.pool if several_pools else "",
            node.shard or "",
            number(node.cpus) if node.cpus else "",
            size(node.memory_bytes) if node.memory_bytes else "",
            node.address,
            ", ".join(f"{run.name} ({run.slots})" for run in node.runs),
            _reason(node),
        )
        for node in known
    )
    return render(_NODES, rows, terminal)


def _reason(node: api.Node) -> str:
    """Why a node takes no work; for a drained one also by whom and when."""
    drain = node.drain
    if drain is None:
        return node.reason
    at = strftime("%Y-%m-%d %H:%M", localtime(drain.at)) if drain.at is not None else ""
    whence = ", ".join(part for part in (drain.user or "", at) if part)
    return f"{drain.reason} ({whence})".strip() if whence else drain.reason


def group_table(known: Sequence[api.Node], terminal: Terminal) -> str:
    """A line for each group of nodes that are equal except for their runs."""
    groups: dict[tuple[str, str, str, str, str, int], list[api.Node]] = {}
    for node in known:
        alike = (node.cluster, node.pool, node.shard or "", node.state)
        groups.setdefault((*alike, node.slot_type or "", node.slots), []).append(node)
    rows = (
        (
            cluster,
            pool,
            shard,
            state_cell(state),
            str(len(nodes)),
            slot_type,
            f"{len(nodes)} x {slots}",
            str(sum(node.slots - node.slots_used for node in nodes)),
            str(sum(not node.runs for node in nodes)),
            str(len({run.id for node in nodes for run in node.runs})),
        )
        for (cluster, pool, shard, state, slot_type, slots), nodes in groups.items()
    )
    return render(_GROUPS, rows, terminal)
