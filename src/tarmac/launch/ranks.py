"""The processes that a launcher starts: one for each slot of a role, and its place among all of them.

Called by `topology`. Ranks grow node by node, in the order of the allocation's nodes, as with torchrun.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tarmac.model.run import WorkerPlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of one process among those of its role.

    `index` counts the processes of its replica, of which there are `neighbours`. `node_slots` are the slots
    of all of the role's processes on the node; `first_node` is the node of rank 0.
    """

    placement: WorkerPlacement
    index: int
    neighbours: int
    slots: tuple[int, ...]
    rank: int
    count: int
    local_rank: int
    local_count: int
    node_slots: tuple[int, ...]
    first_node: str


def places(placements: Sequence[WorkerPlacement], node_ranks: Mapping[str, int]) -> Iterator[Place]:
    """Every process of a role, by rank. A replica without slots is one process."""
    ordered = sorted(placements, key=lambda placement: node_ranks[placement.node])
    count = sum(map(_count, ordered))
    rank = 0
    local: dict[str, int] = {}
    for placement in ordered:
        here = [other for other in ordered if other.node == placement.node]
        node_slots = tuple(slot for other in here for slot in other.slots)
        for index in range(_count(placement)):
            yield Place(
                placement=placement,
                index=index,
                neighbours=_count(placement),
                slots=placement.slots[index : index + 1],
                rank=rank,
                count=count,
                local_rank=local.get(placement.node, 0),
                local_count=sum(map(_count, here)),
                node_slots=node_slots,
                first_node=ordered[0].node,
            )
            rank += 1
            local[placement.node] = local.get(placement.node, 0) + 1


def _count(placement: WorkerPlacement) -> int:
    return max(1, len(placement.slots))
