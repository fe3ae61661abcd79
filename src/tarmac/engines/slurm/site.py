"""What is known of the partition of a cluster, read beside everything else. Used by `SlurmEngine`.

Whoever asks gets what was last read, at once; where that is old, a thread reads it again.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from threading import Lock, Thread

from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.partition import Partition, longest_s, parse_nodes, parse_partitions
from tarmac.engines.slurm.settings import SlurmSettings
from tarmac.model.errors import Unavailable

FRESH_S = 300.0
AGAIN_S = 5.0
"""How long what was read holds, and how soon it is tried again after a failure."""

log = logging.getLogger(__name__)


class Site:
    """The partition that a cluster's settings name. Thread-safe."""

    def __init__(self, cluster: str, settings: SlurmSettings, commands: Commands) -> None:
        self._cluster = cluster
        self._settings = settings
        self._commands = commands
        self._lock = Lock()
        self._known = Partition()
        self._due_at = float("-inf")
        self._reading = False

    def partition(self) -> Partition:
        """What is known of it, at once: nothing before it was first read."""
        with self._lock:
            if not self._reading and time.monotonic() >= self._due_at:
                self._reading = True
                Thread(target=self._read_again, name=f"slurm-{self._cluster}", daemon=True).start()
            return self._known

    def read(self) -> Partition:
        """Read it now. Raises Unavailable."""
        settings = self._settings
        text = self._commands.query(["scontrol", "show", "nodes", "-o"])
        partitions = parse_partitions(self._commands.query(["scontrol", "show", "partition", "-o"]))
        found = parse_nodes(
            text, cluster=self._cluster, partition=settings.partition, gpu_type=settings.gpu_type
        )
        limits = [longest_s(partitions[name]) for name in settings.partition.split(",") if name in partitions]
        known = [limit for limit in limits if limit is not None]
        found = replace(found, longest_s=max(known) if known and len(known) == len(limits) else None)
        with self._lock:
            self._due_at = time.monotonic() + FRESH_S
            if found != self._known:
                self._known = found
            return self._known

    def _read_again(self) -> None:
        try:
            self.read()
        except Unavailable as error:
            log.warning("the nodes of cluster %s could not be read: %s", self._cluster, error)
            with self._lock:
                self._due_at = time.monotonic() + AGAIN_S
        finally:
            self._reading = False
