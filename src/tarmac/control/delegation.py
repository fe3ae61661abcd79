"""Clusters with a queue of their own: what can be asked of them, and how a request is split over nodes.

A request is placed on the cluster as if it were idle, by the code that places runs here: that says whether it
fits at all, and how many nodes it takes. Which nodes they are, the cluster decides; until it has, they go by
their rank. Called by admission, and by the passes that submit and deliver.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tarmac.control.state.engines import AttachedEngine
from tarmac.control.state.facts import candidate_of
from tarmac.model.abilities import ReadsCapacity
from tarmac.model.cluster import Node
from tarmac.model.copying import changed
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.model.spec import Mode, RunSpec
from tarmac.node.attempt.protocol import late_address, rank_name
from tarmac.sched import Placement, Refusal, Snapshot, Waiting, explain


def capacity_of(engine: AttachedEngine) -> tuple[Node, ...]:
    """The nodes of a cluster that has a queue of its own, as if idle; none while nothing is known of them."""
    return tuple(engine.delegate.capacity()) if engine.delegate is not None else ()


def learned_capacity(engine: AttachedEngine) -> tuple[Node, ...]:
    """The same, read now where nothing is known yet: somebody waits for it. Raises Unavailable."""
    known = capacity_of(engine)
    reader = engine.adapter
    if known or not isinstance(reader, ReadsCapacity):
        return known
    with engine.question():
        reader.read_capacity()
    return capacity_of(engine)


def refuse_what_is_not_delegated(spec: RunSpec) -> None:
    """Refuse a mode that takes turns: only tarmac's own scheduler gives them."""
    if spec.mode is not Mode.BATCH:
        raise Refused(
            f"{spec.name} has mode {spec.mode}, and cluster {spec.target.cluster} has a queue of its own",
            hint="mode batch runs there; turns and blocks are given on clusters where tarmac places",
        )


def request_of(run: Run, capacity: tuple[Node, ...], now: float) -> Placement | Refusal | None:
    """What is asked of the cluster for a run, or why it can never be; None while nobody can tell."""
    if not capacity:
        return None
    found = explain(Snapshot(pools=(), nodes=capacity, queue=(candidate_of(run),), holdings=()), run.id, now)
    if isinstance(found, Waiting):
        return None  # it pauses before its next try
    return found if isinstance(found, Refusal) else replace(found, allocation=_unnamed(found.allocation))


def unnamed_nodes(attempt: Attempt, capacity: Sequence[Node]) -> dict[str, Node]:
    """Stand-ins for the nodes of an attempt, by name: like those there are, each at a stand-in address.

    Raises Unavailable while nothing is known of them.
    """
    like = max(capacity, key=lambda node: node.capacity.slots, default=None)
    if like is None:
        raise Unavailable(f"nothing is known yet of cluster {attempt.allocation.cluster}")
    return {
        name: replace(like, name=name, hostname=name, address=late_address(rank))
        for rank, name in enumerate(attempt.allocation.nodes)
    }


def _unnamed(allocation: Allocation) -> Allocation:
    names = {name: rank_name(rank) for rank, name in enumerate(allocation.nodes)}
    placements = tuple(changed(placement, node=names[placement.node]) for placement in allocation.placements)
    return replace(allocation, placements=placements, delegated=True)
