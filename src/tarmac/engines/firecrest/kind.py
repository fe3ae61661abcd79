"""The kind of engine with the name `engine: firecrest`. Made by `server/wiring.py`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tarmac.engines.firecrest.settings import CREDENTIALS, read_settings
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.settings import check_credentials, credential_values, refuse_pool_rules
from tarmac.model.cluster import Cluster

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.sites.engine import SiteEngine

NAME = "firecrest"


class FirecrestKind:
    """Opens the engines of clusters behind a firecREST."""

    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for invalid settings."""
        read_settings(cluster.settings)
        refuse_pool_rules(cluster)
        check_credentials(cluster.credentials, [CREDENTIALS], NAME)

    def open(self, cluster: Cluster) -> SiteEngine:
        """The engine of a cluster."""
        from tarmac.engines.firecrest.api import Api  # noqa: PLC0415
        from tarmac.engines.firecrest.files import FirecrestFiles  # noqa: PLC0415
        from tarmac.engines.firecrest.jobs import FirecrestJobs  # noqa: PLC0415
        from tarmac.engines.sites.engine import SiteEngine  # noqa: PLC0415

        settings, supplies = read_settings(cluster.settings), self._supplies

        def credentials() -> tuple[str, str]:
            found = credential_values(cluster, supplies)
            return found["client_id"], found["client_secret"]

        api = Api(settings.site.url, settings.system, settings.token_url, credentials)
        files = FirecrestFiles(api)
        jobs = FirecrestJobs(api, files, cluster.name, settings.site.slurm)
        sidecar = supplies.sidecar
        if sidecar is not None and sidecar.is_directory:  # nodes cannot access a store on this machine
            sidecar = sidecar.in_directory(settings.site.slurm.directory)
        supplies = replace(supplies, sidecar=sidecar)
        return SiteEngine(
            NAME, cluster.name, settings.site, supplies, files=files, jobs=jobs, release=api.close
        )
