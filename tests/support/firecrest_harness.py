"""The engine `firecrest` under the contract of engines: over a server for tests and a real Slurm."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from firecrest_calls import SYSTEM
from firecrest_far_side import FarSide
from firecrest_server import Client, Firecrest, serving
from slurm_harness import TEMPO, RealSlurmHarness
from tarmac.engines.firecrest.api import Api
from tarmac.engines.firecrest.files import FirecrestFiles
from tarmac.engines.firecrest.jobs import FirecrestJobs
from tarmac.engines.firecrest.settings import read_settings
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.engine import SiteEngine
from tarmac.engines.sites.wire import Reached
from tarmac.engines.slurm.settings import Tempo

CLIENT, SECRET, USER = "a-client", "the secret of a client", "root"


class FirecrestHarness(RealSlurmHarness):
    """The engine of a site whose runs are below `near`; the copies of their reports here are beside them."""

    def __init__(self, near: Path, variables: Mapping[str, str], **given: Any) -> None:
        self.near = near
        self.supplies: dict[str, Any] = {}
        near.mkdir(parents=True, exist_ok=True)
        self._serving = ExitStack()
        client = Client(SECRET, FarSide(USER, (), variables))
        server = Firecrest({CLIENT: client}, (str(near),), **given)
        self.server = self._serving.enter_context(serving(server))
        super().__init__(near / "site", variables)

    def open(self, tempo: Tempo = TEMPO) -> Any:
        self.api = self.reach()
        engine = self.engine_with(tempo)
        engine.read_capacity()
        return engine

    def engine_with(self, tempo: Tempo = TEMPO, **changes: str) -> SiteEngine:
        """An engine with other settings."""
        api = self.reach(system=changes.get("system", SYSTEM))
        files = FirecrestFiles(api)
        settings = read_settings({**self.settings(), **changes})
        supplies = Supplies(
            copies=self.near / "copies",
            secrets=lambda names: self.secrets(names),  # noqa: PLW0108 - a test may replace them
            **self.supplies,
        )
        jobs = FirecrestJobs(api, files, "site", settings.site.slurm)
        reached = Reached(files, jobs, api.close)
        return SiteEngine("firecrest", "site", settings.site, supplies, reached, tempo=tempo)

    def settings(self) -> dict[str, Any]:
        """The settings of the cluster."""
        return {
            "url": self.server.url,
            "token_url": self.server.token_url,
            "system": SYSTEM,
            "directory": str(self.home),
            "partition": "batch",
            "python": sys.executable,
        }

    def reach(self, system: str = SYSTEM, *, client: str = CLIENT) -> Api:
        """A connection, closed at the end."""
        api = Api(self.server.url, system, self.server.token_url, lambda: (client, SECRET))
        self._serving.callback(api.close)
        return api

    def close(self) -> None:
        super().close()
        self._serving.close()
