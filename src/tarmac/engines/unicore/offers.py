"""The offer of a partition, from the ranges that UNICORE shows for its resources. Called by `jobs`."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tarmac.engines.sites.offers import Machine, offer
from tarmac.engines.slurm.partition import Limits, Partition
from tarmac.engines.slurm.settings import PoolSettings

SLOTS = ("GPUsPerNode", "GPUS")
"""The resource with a node's GPUs: by its usual name, and by one that some sites define."""

MOST_NODES = 4096
"""The most nodes that get a name here: UNICORE shows only their number."""

_RANGE = re.compile(r"[0-9.]+-([0-9]+)(?:\.[0-9]+)?")


def offers(pool: PoolSettings, resources: Mapping[str, Mapping[str, Any]], *, cluster: str) -> Partition:
    """The offer of a pool; empty without its partition. Nodes are alike, as far as UNICORE tells."""
    names = [name for name in pool.partition.split(",") if name in resources]
    if not names:
        return Partition()
    found = resources[names[0]]
    gpus = next((most for name in SLOTS if (most := _most(found.get(name)))), 0)
    most_nodes, longest_s = _most(found.get("Nodes")), _most(found.get("Runtime"))
    machines = [
        Machine(
            f"{names[0]}-{number}",
            cpus=_most(found.get("CPUsPerNode")) or 1,
            memory_bytes=_most(found.get("MemoryPerNode")) or None,
        )
        for number in range(1, min(most_nodes or 1, MOST_NODES) + 1)
    ]
    limits = Limits(longest_s=float(longest_s) if longest_s else None, most_nodes=most_nodes or None)
    return offer(cluster, replace(pool, gpus_per_node=pool.gpus_per_node or gpus), machines, limits)


def _most(value: Any) -> int:
    """The upper end of a range `1-4`; 0 for any other form."""
    match = _RANGE.fullmatch(str(value))
    return int(match[1]) if match else 0
