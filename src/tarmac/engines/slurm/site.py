"""The facts about the partitions of a cluster, read in the background. Used by `SlurmEngine`.

Answers come at once from the last read; if that is old, a thread reads again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock, Thread

from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.partition import (
    NO_LIMITS,
    Partition,
    parse_limits,
    parse_nodes,
    parse_partitions,
    widest,
)
from tarmac.engines.slurm.settings import PoolSettings, SlurmSettings
from tarmac.model.cluster import Node, QueueOffer
from tarmac.model.errors import Unavailable

FRESH_S = 300.0
AGAIN_S = 5.0
"""How long a read is valid, and the pause before a retry after a failure."""

log = logging.getLogger(__name__)


class Site:
    """The pools in a cluster's settings. Thread-safe."""

    def __init__(self, cluster: str, settings: SlurmSettings, commands: Commands) -> None:
        self._cluster = cluster
        self._settings = settings
        self._commands = commands
        self._lock = Lock()
        self._known = {pool.name: Partition() for pool in settings.pools}
        self._nodes: tuple[Node, ...] = ()
        self._due_at = float("-inf")
        self._reading = False

    def partition(self, pool: str) -> Partition:
        """The known facts about a pool, at once: none before the first read."""
        self._read_when_due()
        return self._known[self._settings.pool(pool).name]

    def nodes(self) -> tuple[Node, ...]:
        """All known nodes, those of the first pool first; the same object until they change."""
        self._read_when_due()
        return self._nodes

    def queues(self) -> tuple[QueueOffer, ...]:
        """The partition of each pool, and its limits."""
        self._read_when_due()
        return tuple(_offer(pool, self._known[pool.name]) for pool in self._settings.pools)

    def read(self) -> None:
        """Read the partitions now. Raises Unavailable."""
        nodes = self._commands.query(["scontrol", "show", "nodes", "-o"])
        partitions = parse_partitions(self._commands.query(["scontrol", "show", "partition", "-o"]))
        found = {pool.name: self._found(pool, nodes, partitions) for pool in self._settings.pools}
        with self._lock:
            self._due_at = time.monotonic() + FRESH_S
            if found != self._known:
                self._known = found
                self._nodes = tuple(node for partition in found.values() for node in partition.nodes)

    def _found(
        self, pool: PoolSettings, nodes: str, partitions: Mapping[str, Mapping[str, str]]
    ) -> Partition:
        names = pool.partition.split(",")
        found = parse_nodes(
            nodes, cluster=self._cluster, partition=pool.partition, gpu_type=pool.gpu_type, pool=pool.name
        )
        limits = [parse_limits(partitions[name]) if name in partitions else NO_LIMITS for name in names]
        return replace(found, limits=widest(limits))

    def _read_when_due(self) -> None:
        with self._lock:
            if not self._reading and time.monotonic() >= self._due_at:
                self._reading = True
                Thread(target=self._read_again, name=f"slurm-{self._cluster}", daemon=True).start()

    def _read_again(self) -> None:
        try:
            self.read()
        except Unavailable as error:
            log.warning("the nodes of cluster %s could not be read: %s", self._cluster, error)
            with self._lock:
                self._due_at = time.monotonic() + AGAIN_S
        finally:
            self._reading = False


def _offer(pool: PoolSettings, partition: Partition) -> QueueOffer:
    limits = partition.limits
    terms = {name: value for name, value in pool.terms.items() if name != "partition"}
    return QueueOffer(
        pool=pool.name,
        queue=pool.partition,
        terms=terms,
        longest_s=limits.longest_s,
        usual_s=limits.usual_s,
        most_nodes=limits.most_nodes,
    )
