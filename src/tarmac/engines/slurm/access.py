"""`SlurmAccess`: how `SlurmEngine` reaches the scheduler, by its commands or by the interface of a site.

Implemented by `CommandAccess`, and by engines of sites that no SSH reaches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # those that use an access import this module
    import socket

    from tarmac.engines.hosts.installing import Sidecar
    from tarmac.engines.slurm.delivery import Delivery
    from tarmac.engines.slurm.partition import Partition, Site
    from tarmac.engines.slurm.queue import Job, Place
    from tarmac.engines.slurm.script import SlurmRequest
    from tarmac.engines.slurm.states import Reason
    from tarmac.model.engine_kinds import Finding
    from tarmac.node.starting import Installation


class SlurmAccess(Protocol):
    """One user's access to a Slurm. Thread-safe. Every call may raise Unavailable."""

    def jobs(self) -> Mapping[str, Sequence[Job]]:
        """The user's current and recent jobs by attempt, in one query; "": those of an unknown attempt."""

    def recorded(self, job_ids: Sequence[str]) -> Sequence[Job]:
        """The records of these jobs, of which `jobs` has none."""

    def named(self, attempt_id: str) -> Job | None:
        """The job of an attempt that `jobs` does not show, by its name."""

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

    def examine(
        self, site: Site, delivery: Delivery, sidecar: Sidecar | None, *, driver: str
    ) -> Sequence[Finding]:
        """Check everything that a run needs."""
