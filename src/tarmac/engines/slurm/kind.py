"""The kind of engine with the name `engine: slurm`. Made by `server/wiring.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.slurm import files
from tarmac.engines.slurm.settings import read_settings, refuse_pool_rules
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.slurm.users import SlurmOfUsers


class SlurmKind:
    """Opens the engines of Slurm clusters."""

    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for invalid settings."""
        read_settings(cluster.settings)
        refuse_pool_rules(cluster)
        if cluster.credentials:
            raise InvalidInput("the engine slurm takes no credentials: its commands run as the server's user")

    def open(self, cluster: Cluster) -> SlurmOfUsers:
        """The engine of a cluster."""
        from tarmac.engines.hosts.remote import SshHost  # noqa: PLC0415
        from tarmac.engines.hosts.ssh import Ssh  # noqa: PLC0415
        from tarmac.engines.slurm.users import SlurmOfUsers  # noqa: PLC0415

        settings, supplies = read_settings(cluster.settings), self._supplies
        if settings.ssh is None:
            return SlurmOfUsers(cluster.name, settings, supplies)
        supplies = supplies.stored_in(settings.directory)
        host = SshHost(
            settings.directory,
            Ssh(settings.ssh),
            python=settings.python,
            copies=supplies.copies / cluster.name,
            files=files.COPIED,
        )
        return SlurmOfUsers(cluster.name, settings, supplies, host=host)
