"""`SlurmAccess`: how `SlurmEngine` reaches the scheduler, by its commands or by the interface of a site.

Implemented by `CommandAccess`, and by engines of sites that no SSH reaches.
"""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tarmac.engines.hosts.installing import Sidecar
from tarmac.engines.slurm.partition import Partition, Site
from tarmac.engines.slurm.queue import Job, Place, QueueAccess
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.slurm.states import Reason
from tarmac.model.cluster import Finding
from tarmac.node.starting import Installation


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """The parts of a cluster that a check tries beside the access; `prepare` delivers the `installation`."""

    site: Site
    installation: Installation
    prepare: Callable[[], None]
    sidecar: Sidecar | None
    driver: str


class SlurmAccess(QueueAccess, Protocol):
    """One user's access to a Slurm. Thread-safe. Every call may raise Unavailable."""

    def submit(self, request: SlurmRequest, variables: Mapping[str, str]) -> str | None:
        """Submit the job of an attempt with these variables; its id, or None if the answer lacks it.

        Raises InvalidInput for a permanent refusal, otherwise Unavailable: then a job may exist.
        """

    def cancel(self, job_ids: Sequence[str]) -> None:
        """Cancel jobs; ended ones are ignored."""

    def partitions(self) -> Mapping[str, Partition]:
        """The offer of each pool, by its name."""

    def place_of(self, job_id: str) -> Place | None:
        """The known place of a waiting job in its queue, at once."""

    def exceeded_by(self, job: Job) -> Reason | None:
        """The known limit by which a waiting job never starts, at once."""

    def open_session(self, job_id: str, node: str, installation: Installation) -> socket.socket:
        """A connection to the far end of a session on a node of a job. Raises Refused if none is possible."""

    def examine(self, examined: Examined) -> Sequence[Finding]:
        """Check everything that a run needs."""
