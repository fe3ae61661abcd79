"""The kind of engine with the name `engine: firecrest`. Made by `server/wiring.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tarmac.engines.firecrest.settings import CREDENTIALS, read_settings
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.settings import SiteSettings, check_credentials, credential_values
from tarmac.engines.slurm.settings import refuse_pool_rules
from tarmac.model.cluster import Cluster

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.sites.engine import SiteOfLogins

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

    def open(self, cluster: Cluster) -> SiteOfLogins:
        """The engine of a cluster."""
        from tarmac.engines.firecrest.api import Api  # noqa: PLC0415
        from tarmac.engines.firecrest.files import FirecrestFiles  # noqa: PLC0415
        from tarmac.engines.firecrest.jobs import FirecrestJobs  # noqa: PLC0415
        from tarmac.engines.sites.engine import SiteOfLogins  # noqa: PLC0415
        from tarmac.engines.sites.wire import Reached  # noqa: PLC0415

        settings = read_settings(cluster.settings)

        def reach(site: SiteSettings, login: str | None) -> Reached:
            def credentials() -> tuple[str, str]:
                found = credential_values(cluster, self._supplies, login)
                return found["client_id"], found["client_secret"]

            api = Api(site.url, settings.system, settings.token_url, credentials)
            files = FirecrestFiles(api, site.slurm.pools[0].terms.get("account"))
            return Reached(files, FirecrestJobs(api, files, cluster.name, site.slurm), api.close)

        return SiteOfLogins(NAME, cluster, settings.site, self._supplies, reach)
