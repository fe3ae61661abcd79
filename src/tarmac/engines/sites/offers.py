"""The offer of a pool at a site, from what its interface shows. Called by implementations of `SiteJobs`."""

from collections.abc import Sequence
from typing import NamedTuple

from tarmac.engines.slurm.partition import NO_LIMITS, UNCOUNTED_BYTES, Limits, Partition
from tarmac.engines.slurm.settings import PoolSettings
from tarmac.model.cluster import Node
from tarmac.model.resources import ACCELERATOR, CPU_ONLY, Resources

UNKNOWN_BYTES = UNCOUNTED_BYTES - 1
"""The assumed memory of a node if the interface does not show it: jobs may request some."""


class Machine(NamedTuple):
    """A node of a partition; `memory_bytes` None: the interface does not show it."""

    name: str
    cpus: int
    memory_bytes: int | None = None


def offer(
    cluster: str, pool: PoolSettings, machines: Sequence[Machine], limits: Limits = NO_LIMITS
) -> Partition:
    """The offer of a pool: interfaces show no GPUs, so the pool's settings say how many a node has."""
    kind = (pool.gpu_type or ACCELERATOR) if pool.gpus_per_node else CPU_ONLY
    nodes = [
        Node(
            name=f"{machine.name}.{cluster}",
            cluster=cluster,
            address=machine.name,
            hostname=machine.name,
            pool=pool.name,
            capacity=Resources(
                slots=pool.gpus_per_node or machine.cpus,
                slot_type=kind.lower(),
                cpus=float(machine.cpus),
                memory_bytes=machine.memory_bytes or UNKNOWN_BYTES,
            ),
        )
        for machine in machines
    ]
    types = {kind.lower(): kind} if pool.gpus_per_node else {}
    return Partition(nodes=tuple(nodes), types=types, limits=limits)
