"""The kind of engine that `engine: slurm` names. Made by `server/wiring.py`."""

from __future__ import annotations

from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.installing import Sidecar
from tarmac.engines.slurm.settings import read_settings
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput
from tarmac.model.ports import StreamsCode
from tarmac.model.secret import SecretValues
from tarmac.node.files.gitrules import GitRules


class SlurmKind:
    """Opens the engines of clusters that are a Slurm; what is given here holds for all of them."""

    def __init__(
        self,
        *,
        code: StreamsCode,
        secrets: SecretValues,
        sidecar: Sidecar,
        git: GitRules,
        own_packages: bool,
        log_limit_bytes: int | None,
    ) -> None:
        self._code = code
        self._secrets = secrets
        self._sidecar = sidecar
        self._git = git
        self._own_packages = own_packages
        self._log_limit_bytes = log_limit_bytes

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
        return SlurmEngine(
            cluster.name,
            read_settings(cluster.settings),
            code=self._code,
            git=self._git,
            own_packages=self._own_packages,
            log_limit_bytes=self._log_limit_bytes,
            secrets=self._secrets,
            sidecar=self._sidecar,
        )
