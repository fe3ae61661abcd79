"""`UnicoreEngine`: attempts as jobs of UNICORE. Made by `UnicoreKind`."""

from __future__ import annotations

from dataclasses import replace

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.engine import SiteEngine
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.slurm.settings import Tempo
from tarmac.engines.unicore.client import Unicore
from tarmac.engines.unicore.examining import ExaminedJobs
from tarmac.engines.unicore.files import UnicoreFiles
from tarmac.engines.unicore.login_hooks import login_scripts, without_login_hooks
from tarmac.engines.unicore.settings import NAME, UnicoreSettings
from tarmac.node.attempt.document import Launch


class UnicoreEngine(SiteEngine):
    """The engine of one cluster."""

    def __init__(
        self,
        cluster: str,
        settings: UnicoreSettings,
        supplies: Supplies,
        site: Unicore,
        *,
        tempo: Tempo | None = None,
        beside: SlurmEngine | None = None,
    ) -> None:
        slurm = settings.site.slurm
        files = UnicoreFiles(site, str(slurm.directory))
        jobs = ExaminedJobs(cluster, site, files, slurm, group=settings.group)
        self._interface = site
        super().__init__(
            NAME, cluster, settings.site, supplies, files=files, jobs=jobs, tempo=tempo, beside=beside
        )

    def render(self, launch: Launch) -> SlurmRequest:
        """Commands for the login node run there, not on the first node."""
        directory = self._host.directory(launch.attempt_id)
        request = super().render(without_login_hooks(launch, directory))
        return replace(request, login_scripts=login_scripts(launch, directory))

    def close(self) -> None:
        self._interface.close()
