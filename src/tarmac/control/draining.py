"""Drains nodes and takes them back: resolves the nodes that a person means. Called by `service`.

All nodes are resolved before the first is drained, and all are drained in one transaction.
"""

from collections.abc import Collection

from tarmac.api.cluster_operations import NodeChoice
from tarmac.control.reports import NodeReport, node_reports
from tarmac.control.state.control_state import ControlState
from tarmac.model.actor import Actor
from tarmac.model.cluster import REHEARSAL_PREFIX, Drain, Node, NodeState
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput, NotFound, Refused, listed, suggestion

NAMES_SHOWN = 8


ALL_NODES = NodeChoice()


def set_drained(
    control: ControlState, choice: NodeChoice, drain: Drain | None, slot: int | None = None
) -> list[NodeReport]:
    """Drain the nodes, or this slot of each, or (None) take them back; returns their new state.

    Without a reason an already drained node keeps its drain. Raises NotFound if no node is meant, and Refused
    for a host name that several nodes have.
    """
    with control.lock:
        nodes = control.nodes()
        chosen = chosen_nodes(nodes, choice)
        if slot is not None:
            drains = {node.name: _slot_drain(node, drain, slot) for node in nodes if node.name in chosen}
            for name, each in drains.items():
                control.set_drained([name], each)
        else:
            changed = chosen - control.wholly_drained() if drain is not None and not drain.reason else chosen
            control.set_drained(changed, drain)
        return [report for report in node_reports(control) if report.node.name in chosen]


def _slot_drain(node: Node, drain: Drain | None, slot: int) -> Drain | None:
    """The drain of a node after that of one of its slots; None if no drain remains."""
    if not 0 <= slot < node.capacity.slots:
        raise NotFound(f"node {node.name} has no slot {slot}: it has {node.capacity.slots}, from 0 on")
    if node.state is NodeState.DRAINED:
        raise Refused(f"node {node.name} is drained, with all its slots", hint="undrain the node first")
    before = node.drain or Drain()
    slots = {*before.slots, slot} if drain is not None else {*before.slots} - {slot}
    reason = f"no work for slots {', '.join(map(str, sorted(slots)))}"
    return replace(drain or before, slots=tuple(sorted(slots)), reason=reason) if slots else None


def chosen_reports(control: ControlState, choice: NodeChoice, actor: Actor | None = None) -> list[NodeReport]:
    """The chosen nodes with their load, and the runs that an actor may see; all nodes without a choice."""
    reports = node_reports(control, actor)
    if choice == ALL_NODES:
        return reports
    chosen = chosen_nodes([report.node for report in reports], choice)
    return [report for report in reports if report.node.name in chosen]


def chosen_nodes(nodes: Collection[Node], choice: NodeChoice) -> set[str]:
    """The names of the chosen nodes, at least one; raises NotFound, and Refused for an ambiguous name."""
    parts = {"cluster": choice.cluster, "pool": choice.pool, "shard": choice.shard}
    filters = {part: value for part, value in parts.items() if value is not None}
    if not filters and not choice.names:
        raise InvalidInput("which nodes? Name them, or a cluster, pool or shard")
    within = [node for node in nodes if all(getattr(node, part) == value for part, value in filters.items())]
    if not within:
        hint = OWN_QUEUE if "cluster" in filters else None
        raise NotFound(_empty_choice_text(nodes, filters), hint=hint)
    if not choice.names:
        return {node.name for node in within}
    known = {node.name for node in within}
    by_hostname: dict[str, list[str]] = {}
    for node in within:
        if not node.cluster.startswith(REHEARSAL_PREFIX):
            by_hostname.setdefault(node.hostname, []).append(node.name)
    return {_node_called(name, known, by_hostname) for name in choice.names}


OWN_QUEUE = "a cluster with a queue of its own, such as a Slurm, shows its nodes itself: sinfo"


def _node_called(name: str, known: set[str], by_hostname: dict[str, list[str]]) -> str:
    if name in known:
        return name
    matches = by_hostname.get(name, [])
    if len(matches) > 1:
        raise Refused(
            f"several nodes have the host name {name!r}", hint=f"one of {listed(matches, NAMES_SHOWN)}"
        )
    if matches:
        return matches[0]
    hint = suggestion(name, known | by_hostname.keys(), f"nodes: {listed(sorted(known), NAMES_SHOWN)}")
    raise NotFound(f"there is no node {name!r}", hint=hint)


def _empty_choice_text(nodes: Collection[Node], filters: dict[str, str]) -> str:
    """The part of the choice that excludes every node."""
    for part, value in filters.items():
        values = sorted({str(getattr(node, part)) for node in nodes if getattr(node, part) is not None})
        if value not in values:
            return f"no node is in {part} {value!r}; there is {listed(values, NAMES_SHOWN) or 'none'}"
    return f"no node is in {' and '.join(f'{part} {value!r}' for part, value in filters.items())}"
