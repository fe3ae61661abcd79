"""The partitions of a cluster: parsed from `scontrol`, and read in the background (`Site`).

Used by `SlurmEngine`, its accesses and `examining`. Answers of `Site` come at once from the last read; if
that is old, a thread reads again.
"""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TypeVar

from tarmac.engines.slurm.commands import BackgroundReader
from tarmac.engines.slurm.settings import PoolSettings, SlurmSettings
from tarmac.model.cluster import DEFAULT_POOL, Node, QueueOffer
from tarmac.model.resources import ACCELERATOR, CPU_ONLY, Resources

N = TypeVar("N", int, float)

_FIELD = re.compile(r"(?:^|\s)([A-Z][A-Za-z]*)=(\S*)")
_GPU = re.compile(r"gpu(?::([A-Za-z][A-Za-z0-9_.-]*))?(?::([0-9]+))?(?:\([^)]*\))?")
_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


UNSET_MIB = 1
"""Slurm's value for the memory of a node without a configured one."""

UNCOUNTED_BYTES = 1 << 50
"""The assumed memory of such nodes: enough for every run."""

FRESH_S = 300.0
AGAIN_S = 5.0
"""How long a read is valid, and the pause before a retry after a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a partition for a job: None if there is none, or it is unknown."""

    longest_s: float | None = None
    usual_s: float | None = None
    most_nodes: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """The offer of a pool, from its partition: a node for each type of slots that a machine has.

    `types` are the GPUs by the names that runs use; the values are Slurm's spelling.
    """

    nodes: tuple[Node, ...] = ()
    types: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = NO_LIMITS

    @property
    def counts_memory(self) -> bool:
        """Whether a job may request memory: Slurm refuses it if the site configures none."""
        return any(node.capacity.memory_bytes < UNCOUNTED_BYTES for node in self.nodes)

    def cpus_per_slot(self, slot_type: str | None = None) -> int:
        """The default processors of one GPU (of a type)."""
        nodes = [node.capacity for node in self.nodes if slot_type in (None, node.capacity.slot_type)]
        return max(1, min((int(each.cpus) // each.slots for each in nodes if each.slots), default=1))


def parse_nodes(
    text: str, *, cluster: str, partition: str, gpu_type: str | None = None, pool: str = DEFAULT_POOL
) -> Partition:
    """The nodes of a partition in the output of `scontrol show nodes -o`, as if idle.

    If it has GPUs, its slots are these, of every type, or of `gpu_type` alone; otherwise processors.
    """
    types: dict[str, str] = {}
    there: list[tuple[Mapping[str, str], Counter[str]]] = []
    for fields in _records(text, "NodeName"):
        if not set(partition.split(",")).isdisjoint(fields.get("Partitions", "").split(",")):
            gpus = _gpus(fields.get("Gres", ""))
            types |= {kind.lower(): kind for kind in gpus}
            there.append((fields, Counter({kind.lower(): count for kind, count in gpus.items()})))
    if gpu_type is not None:
        types = {kind: name for kind, name in types.items() if kind == gpu_type.lower()}
    offered = sorted(types) if types or gpu_type is not None else [CPU_ONLY]
    nodes = [
        _node(fields, cluster, pool=pool, slots=slots, slot_type=kind, others=len(gpus) > 1)
        for fields, gpus in there
        for kind in offered
        if (slots := _cpus(fields) if kind == CPU_ONLY else gpus[kind]) > 0
    ]
    return Partition(nodes=tuple(nodes), types=types)


def parse_partitions(text: str) -> dict[str, Mapping[str, str]]:
    """The fields of each partition in the output of `scontrol show partition -o`, by name."""
    return {fields["PartitionName"]: fields for fields in _records(text, "PartitionName")}


def parse_limits(fields: Mapping[str, str]) -> Limits:
    """A partition's limits for the time and the nodes of a job."""
    most_nodes = fields.get("MaxNodes", "")
    usual_s = parse_duration(fields.get("DefaultTime", ""))
    return Limits(
        longest_s=parse_duration(fields.get("MaxTime", "")),
        usual_s=usual_s,
        most_nodes=int(most_nodes) if most_nodes.isdigit() else None,
    )


def widest(limits: Sequence[Limits]) -> Limits:
    """The widest limits of several partitions; unknown if one of them is."""
    return Limits(
        longest_s=_largest([each.longest_s for each in limits]),
        usual_s=_largest([each.usual_s for each in limits]),
        most_nodes=_largest([each.most_nodes for each in limits]),
    )


def parse_duration(text: str) -> float | None:
    """A time in Slurm's form, in seconds; None for UNLIMITED, NONE and the like."""
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def minutes(seconds: float) -> int:
    """Seconds in whole minutes, the unit of Slurm's limits."""
    return max(1, math.ceil(seconds / 60))


def _records(text: str, key: str) -> Iterator[Mapping[str, str]]:
    for line in text.splitlines():
        fields = dict(_FIELD.findall(line))
        if key in fields:
            yield fields


def _largest(values: Sequence[N | None]) -> N | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _gpus(gres: str) -> Counter[str]:
    """The number of GPUs of each type: `gpu:a100:4(S:0-1),gpu:2` and the like."""
    found: Counter[str] = Counter()
    for item in re.split(r",(?![^(]*\))", gres):
        match = _GPU.fullmatch(item)
        if match is not None:
            found[match[1] or ACCELERATOR] += int(match[2] or 1)
    return found


def _cpus(fields: Mapping[str, str]) -> int:
    return int(fields.get("CPUEfctv") or fields.get("CPUTot") or 0)


def _node(
    fields: Mapping[str, str], cluster: str, *, pool: str, slots: int, slot_type: str, others: bool
) -> Node:
    """A node as if idle, even while it is down: that does not change the possible requests.

    One that also has GPUs of `others` types appears once for each type, under names of their own.
    """
    host = fields["NodeName"]
    memory_mib = int(fields.get("RealMemory") or 0)
    return Node(
        name=f"{host}-{slot_type}.{cluster}" if others else f"{host}.{cluster}",
        cluster=cluster,
        address=fields.get("NodeAddr") or host,
        hostname=host,
        pool=pool,
        capacity=Resources(
            slots=slots,
            slot_type=slot_type,
            cpus=float(_cpus(fields)),
            memory_bytes=memory_mib * 2**20 if memory_mib > UNSET_MIB else UNCOUNTED_BYTES,
        ),
    )


class Site:
    """The pools in a cluster's settings; `partitions` reads the offer of each. Thread-safe."""

    def __init__(
        self, cluster: str, settings: SlurmSettings, partitions: Callable[[], Mapping[str, Partition]]
    ) -> None:
        self._settings = settings
        self._partitions = partitions
        self._reader = BackgroundReader(
            self._read, f"the nodes of cluster {cluster}", every_s=FRESH_S, again_s=AGAIN_S
        )
        self._known = {pool.name: Partition() for pool in settings.pools}
        self._nodes: tuple[Node, ...] = ()

    def partition(self, pool: str) -> Partition:
        """The known facts about a pool, at once: none before the first read."""
        self._reader.when_due()
        return self._known[self._settings.pool(pool).name]

    def nodes(self) -> tuple[Node, ...]:
        """All known nodes, those of the first pool first; the same object until they change."""
        self._reader.when_due()
        return self._nodes

    def queues(self) -> tuple[QueueOffer, ...]:
        """The partition of each pool, and its limits."""
        self._reader.when_due()
        return tuple(_offer(pool, self._known[pool.name]) for pool in self._settings.pools)

    def read(self) -> None:
        """Read the partitions now. Raises Unavailable."""
        self._reader.now()

    def _read(self) -> None:
        found = self._partitions()
        if found != self._known:
            self._known = dict(found)
            self._nodes = tuple(node for partition in found.values() for node in partition.nodes)


def _offer(pool: PoolSettings, partition: Partition) -> QueueOffer:
    terms = {name: value for name, value in pool.terms.items() if name != "partition"}
    return QueueOffer(pool=pool.name, queue=pool.partition, terms=terms, **asdict(partition.limits))
