"""The kind of engine that `engine: slurm` names. Made by `server/wiring.py`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tarmac.engines.slurm.installing import Sidecar
from tarmac.engines.slurm.settings import SlurmSettings, read_settings
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput
from tarmac.model.ports import StreamsCode
from tarmac.model.secret import SecretValues
from tarmac.node.files.gitrules import GitRules

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.slurm.engine import SlurmEngine
    from tarmac.engines.slurm.host import Host


class SlurmKind:
    """Opens the engines of clusters that are a Slurm; what is given here holds for all of them.

    `copies` is where the reports of attempts are copied to that lie on other machines.
    """

    def __init__(
        self,
        *,
        code: StreamsCode,
        secrets: SecretValues,
        sidecar: Sidecar,
        git: GitRules,
        own_packages: bool,
        log_limit_bytes: int | None,
        copies: Path,
    ) -> None:
        self._code = code
        self._secrets = secrets
        self._sidecar = sidecar
        self._git = git
        self._own_packages = own_packages
        self._log_limit_bytes = log_limit_bytes
        self._copies = copies

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for settings that name no Slurm."""
        read_settings(cluster.settings)
        if cluster.pools:
            raise InvalidInput(
                "the rules of pools are for clusters where tarmac places",
                hint="pools of a Slurm are 'pools' in its settings: {train: {partition: gpu}}",
            )
        if cluster.credentials:
            raise InvalidInput("the engine slurm takes no credentials: its commands run as the server's user")

    def open(self, cluster: Cluster) -> SlurmEngine:
        """Its engine."""
        from tarmac.engines.slurm.engine import SlurmEngine  # noqa: PLC0415

        settings = read_settings(cluster.settings)
        return SlurmEngine(
            cluster.name,
            settings,
            host=self._host(cluster.name, settings),
            code=self._code,
            git=self._git,
            own_packages=self._own_packages,
            log_limit_bytes=self._log_limit_bytes,
            secrets=self._secrets,
            sidecar=self._sidecar_of(settings),
        )

    def _sidecar_of(self, settings: SlurmSettings) -> Sidecar | None:
        """What keeps artifacts: behind SSH, nodes do not see a store that is a directory of this machine."""
        return None if settings.ssh is not None and self._sidecar.is_directory else self._sidecar

    def _host(self, cluster: str, settings: SlurmSettings) -> Host:
        """Where its commands work."""
        from tarmac.engines.slurm.host import Ssh, local_host, ssh_host  # noqa: PLC0415

        if settings.ssh is None:
            return local_host(settings.directory)
        return ssh_host(
            settings.directory,
            Ssh(settings.ssh),
            python=settings.python,
            copies=self._copies / cluster,
        )
