"""What a partition has, from `scontrol`: pure parsing. Called by `site` and `examining`."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tarmac.model.cluster import Node
from tarmac.model.resources import ACCELERATOR, CPU_ONLY, Resources

_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z]*)=(\S*)")
_GPU = re.compile(r"gpu(?::([A-Za-z][A-Za-z0-9_.-]*))?(?::([0-9]+))?(?:\([^)]*\))?")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition as offered: nodes of one type of slots. `types` are all the types of GPUs it has."""

    nodes: tuple[Node, ...] = ()
    slot_type: str = CPU_ONLY
    types: tuple[str, ...] = ()
    longest_s: float | None = None

    @property
    def has_gpus(self) -> bool:
        """Whether its slots are GPUs; else they are processors."""
        return self.slot_type != CPU_ONLY

    @property
    def cpus_per_slot(self) -> int:
        """What goes with one GPU where nothing else is asked."""
        shares = [
            int(node.capacity.cpus) // node.capacity.slots for node in self.nodes if node.capacity.slots
        ]
        return max(1, min(shares, default=1))


def parse_nodes(text: str, *, cluster: str, partition: str, gpu_type: str | None) -> Partition:
    """The nodes that `scontrol show nodes -o` lists of a partition, as if idle.

    Where it has GPUs of several types, those of `gpu_type` are offered, else of the type with most.
    """
    records = [fields for fields in _records(text, "NodeName") if _is_in(fields, partition)]
    gpus = [_gpus(fields.get("Gres", "")) for fields in records]
    counted: Counter[str] = sum(gpus, Counter())
    most = min(counted, key=lambda kind: (-counted[kind], kind), default=CPU_ONLY)
    slot_type = gpu_type.lower() if gpu_type else most
    nodes = []
    for fields, there in zip(records, gpus, strict=True):
        cpus = int(fields.get("CPUEfctv") or fields.get("CPUTot") or 0)
        slots = cpus if slot_type == CPU_ONLY else there[slot_type]
        if slots > 0:
            nodes.append(_node(fields, cluster, cpus=cpus, slots=slots, slot_type=slot_type))
    return Partition(nodes=tuple(nodes), slot_type=slot_type, types=tuple(sorted(counted)))


def parse_partitions(text: str) -> dict[str, Mapping[str, str]]:
    """What `scontrol show partition -o` says of each partition, by name."""
    return {fields["PartitionName"]: fields for fields in _records(text, "PartitionName")}


def longest_s(fields: Mapping[str, str]) -> float | None:
    """The longest time that a job of a partition may take; None where it has no limit."""
    match = _TIME.fullmatch(fields.get("MaxTime", ""))
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def minutes(seconds: float) -> int:
    """In whole minutes, as Slurm counts limits."""
    return max(1, math.ceil(seconds / 60))


def _records(text: str, key: str) -> Iterator[Mapping[str, str]]:
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        if key in fields:
            yield fields


def _is_in(fields: Mapping[str, str], partition: str) -> bool:
    wanted = set(partition.split(","))
    return not wanted.isdisjoint(fields.get("Partitions", "").split(","))


def _gpus(gres: str) -> Counter[str]:
    """How many GPUs of which type: `gpu:a100:4(S:0-1),gpu:2` and the like."""
    found: Counter[str] = Counter()
    for item in re.split(r",(?![^(]*\))", gres):
        match = _GPU.fullmatch(item)
        if match is not None:
            found[(match[1] or ACCELERATOR).lower()] += int(match[2] or 1)
    return found


def _node(fields: Mapping[str, str], cluster: str, *, cpus: int, slots: int, slot_type: str) -> Node:
    """A node as if idle, also while it is down: what can be asked for does not change with that."""
    name = fields["NodeName"]
    memory = int(fields.get("RealMemory") or 0) * 2**20
    return Node(
        name=f"{name}.{cluster}",
        cluster=cluster,
        address=fields.get("NodeAddr") or name,
        hostname=name,
        capacity=Resources(slots=slots, slot_type=slot_type, cpus=float(cpus), memory_bytes=memory),
    )
