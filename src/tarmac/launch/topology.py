"""The place of each worker among its peers: ranks, counts and slots, from the placements of an allocation.

Called by `launch.compose`. A role has one of two forms, and one rule holds: over the nodes of a role, N_PROC
adds up to the number of its training processes.

- `slots: N`: one worker per node; it starts N_PROC processes, one for each of its slots there.
- fixed replicas: every worker is one process; N_PROC counts the role's workers on the node. With one replica
  on each node, NNODES x N_PROC is the number of processes of the role.

With a launcher, either form has one worker for each slot (`Place`). Ranks grow node by node, in the order of
the allocation's nodes, as with torchrun.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tarmac.model.progress import WorkerPlacement
from tarmac.model.resources import Resources
from tarmac.model.run import Allocation
from tarmac.model.spec import ON_FIRST_NODE, Process, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of one process among those of its role; its replica has `neighbours` processes.

    `node_slots` are the slots of all of the role's processes on the node; `first_node` is the node of rank 0.
    """

    neighbours: int
    rank: int
    count: int
    local_rank: int
    local_count: int
    node_slots: tuple[int, ...]
    first_node: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One worker: its process, its placement and slots, and its place among the others of its role."""

    role: Role
    process: Process
    placement: WorkerPlacement
    index: int
    slots: tuple[int, ...]
    replicas: int
    node_rank: int
    nodes: int
    processes_on_node: int
    place: Place | None = None

    @property
    def rank(self) -> int | None:
        """Its place among all processes of its role, if a launcher starts those."""
        return self.place.rank if self.place is not None else None

    @property
    def processes(self) -> int:
        """The processes that share this worker's processors: those it starts itself, otherwise it alone."""
        return self.processes_on_node if self.role.slots is not None and self.place is None else 1

    @property
    def neighbours(self) -> int:
        """The number of workers of its replica."""
        return len(self.role.processes) if self.place is None else self.place.neighbours

    @property
    def limits(self) -> Resources:
        """The processors and the memory that this worker may use: its request, for all its slots.

        If a launcher starts several processes for a request, each may use an equal share.
        """
        if self.role.slots is None:
            request = self.process.resources
        else:
            request = Resources(cpus=self.placement.cpus, memory_bytes=self.placement.memory_bytes)
        if self.place is None:
            return request
        count = self.place.neighbours
        return Resources(cpus=request.cpus / count, memory_bytes=request.memory_bytes // count)


def assignments(roles: tuple[Role, ...], allocation: Allocation) -> Iterator[Assignment]:
    """Every worker of an attempt, in the order of roles, replicas and processes."""
    for role in roles:
        placements = [placement for placement in allocation.placements if placement.role == role.name]
        on_node = Counter(placement.node for placement in placements)
        ranks = {node: rank for rank, node in enumerate(node for node in allocation.nodes if node in on_node)}
        if role.launcher is not None and role.launcher not in ON_FIRST_NODE:
            yield from _ranked(role, placements, ranks)
            continue
        for placement in placements:
            yield from _of_placement(
                role, placement, ranks=ranks, replicas=len(placements), replicas_here=on_node[placement.node]
            )


def _of_placement(
    role: Role, placement: WorkerPlacement, *, ranks: Mapping[str, int], replicas: int, replicas_here: int
) -> Iterator[Assignment]:
    offset = 0
    for index, process in enumerate(role.processes):
        if role.slots is not None:
            slots, on_node = placement.slots, len(placement.slots)
        else:
            slots = placement.slots[offset : offset + process.resources.slots]
            offset += process.resources.slots
            on_node = replicas_here * len(role.processes)
        yield Assignment(
            role=role,
            process=process,
            placement=placement,
            index=index,
            slots=slots,
            replicas=replicas,
            node_rank=ranks[placement.node],
            nodes=len(ranks),
            processes_on_node=on_node,
        )


def _ranked(
    role: Role, placements: Sequence[WorkerPlacement], ranks: Mapping[str, int]
) -> Iterator[Assignment]:
    """The processes that a launcher starts, by rank. A replica without slots is one process."""
    ordered = sorted(placements, key=lambda placement: ranks[placement.node])
    counts = {placement.node: 0 for placement in ordered}
    total = sum(map(_count, ordered))
    for placement in ordered:
        here = [other for other in ordered if other.node == placement.node]
        local_count = sum(map(_count, here))
        node_slots = tuple(slot for other in here for slot in other.slots)
        for index in range(_count(placement)):
            place = Place(
                neighbours=_count(placement),
                rank=sum(counts.values()),
                count=total,
                local_rank=counts[placement.node],
                local_count=local_count,
                node_slots=node_slots,
                first_node=ordered[0].node,
            )
            counts[placement.node] += 1
            yield Assignment(
                role=role,
                process=role.processes[0],
                placement=placement,
                index=index,
                slots=placement.slots[index : index + 1],
                replicas=len(placements),
                node_rank=ranks[placement.node],
                nodes=len(ranks),
                processes_on_node=local_count,
                place=place,
            )


def _count(placement: WorkerPlacement) -> int:
    return max(1, len(placement.slots))
