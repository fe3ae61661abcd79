"""The kind of engine with the name `engine: slurm`. Made by `server/wiring.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.engines.hosts.installing import Sidecar, Supplies
from tarmac.engines.slurm.settings import COPIED_FILES, SlurmSettings, read_settings
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.hosts.host import Host
    from tarmac.engines.slurm.engine import SlurmEngine


class SlurmKind:
    """Opens the engines of Slurm clusters."""

    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for invalid settings."""
        read_settings(cluster.settings)
        if cluster.pools:
            raise InvalidInput(
                "the rules of pools are for clusters where tarmac places",
                hint="pools of a Slurm are 'pools' in its settings: {train: {partition: gpu}}",
            )
        if cluster.credentials:
            raise InvalidInput("the engine slurm takes no credentials: its commands run as the server's user")

    def open(self, cluster: Cluster) -> SlurmEngine:
        """The engine of a cluster."""
        from tarmac.engines.slurm.engine import SlurmEngine  # noqa: PLC0415

        settings = read_settings(cluster.settings)
        return SlurmEngine(
            cluster.name,
            settings,
            host=self._host(cluster.name, settings),
            code=self._supplies.code,
            attempts=self._supplies.attempts_of(cluster.name),
            secrets=self._supplies.secrets,
            sidecar=self._sidecar_of(settings),
        )

    def _sidecar_of(self, settings: SlurmSettings) -> Sidecar:
        """The program that stores artifacts: over SSH, nodes cannot access a store on this machine."""
        sidecar = self._supplies.sidecar
        if settings.ssh is not None and sidecar.is_directory:
            return sidecar.in_directory(settings.directory)
        return sidecar

    def _host(self, cluster: str, settings: SlurmSettings) -> Host:
        """The host of its commands."""
        from tarmac.engines.hosts.local import local_host  # noqa: PLC0415
        from tarmac.engines.hosts.remote import ssh_host  # noqa: PLC0415
        from tarmac.engines.hosts.ssh import Ssh  # noqa: PLC0415

        if settings.ssh is None:
            return local_host(settings.directory)
        return ssh_host(
            settings.directory,
            Ssh(settings.ssh),
            python=settings.python,
            copies=self._supplies.copies / cluster,
            files=COPIED_FILES,
        )
