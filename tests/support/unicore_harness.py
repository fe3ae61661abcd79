"""The engine `unicore` under the contract of engines: over the UNICORE of tests and a real Slurm."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

from slurm_harness import TEMPO, RealSlurmHarness
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.engine import SiteEngine
from tarmac.engines.sites.wire import Reached
from tarmac.engines.slurm.settings import Tempo
from tarmac.engines.unicore.client import Unicore
from tarmac.engines.unicore.files import UnicoreFiles
from tarmac.engines.unicore.jobs import UnicoreJobs
from tarmac.engines.unicore.settings import read_settings
from unicore_sites import login, serving


def unicore_engine(
    settings: Mapping[str, str], supplies: Supplies, site: Unicore, tempo: Tempo = TEMPO
) -> SiteEngine:
    """The engine of a cluster with these settings, reached by this login."""
    read = read_settings(settings)
    files = UnicoreFiles(site, str(read.site.slurm.directory))
    jobs = UnicoreJobs("site", site, files, read.site.slurm, group=read.group)
    reached = Reached(files, jobs, site.close)
    return SiteEngine("unicore", "site", read.site, supplies, reached, tempo=tempo)


class UnicoreHarness(RealSlurmHarness):
    """The server has copies of the reports alone; `home` is at the site."""

    def __init__(self, near: Path, variables: Mapping[str, str]) -> None:
        self.near = near
        self._closing = ExitStack()
        self.site = self._closing.enter_context(serving(near / "site", **variables))
        super().__init__(near / "site/ada/tarmac", variables)

    def open(self, tempo: Tempo = TEMPO) -> SiteEngine:  # type: ignore[override]
        settings = {
            "url": self.site.url,
            "directory": str(self.home),
            "partition": "batch",
            "python": sys.executable,
            "ca": str(self.site.ca),
        }
        # A test may replace the secrets.
        supplies = Supplies(
            copies=self.near / "copies",
            secrets=lambda names: self.secrets(names),  # noqa: PLW0108
        )
        engine = unicore_engine(settings, supplies, login(self.site), tempo)
        engine.read_capacity()
        return engine

    def job(self, attempt: str) -> str:
        """The id of the job in Slurm."""
        native = self.engine.observe([attempt])[attempt].native
        assert native is not None
        return self.site.site.jobs[native.id].batch_id

    def forget(self, attempt: str) -> None:
        """The system loses a job that waits."""
        native = self.engine.observe([attempt])[attempt].native
        assert native is not None
        site = self.site.site
        site.delete(site.users["ada"], site.jobs[native.id])

    def close(self) -> None:
        super().close()
        self._closing.close()
