"""The kind of engine with the name `engine: unicore`. Made by `server/wiring.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.settings import SiteSettings, credential_values, of_user
from tarmac.engines.slurm.settings import refuse_pool_rules
from tarmac.engines.unicore.settings import NAME, check_credentials, read_settings
from tarmac.model.cluster import Cluster

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.sites.engine import SiteOfLogins


class UnicoreKind:
    """Opens the engines of clusters behind a UNICORE."""

    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for invalid settings."""
        refuse_pool_rules(cluster)
        check_credentials(read_settings(cluster.settings), cluster.credentials)

    def open(self, cluster: Cluster) -> SiteOfLogins:
        """The engine of a cluster."""
        from tarmac.engines.sites.engine import SiteOfLogins  # noqa: PLC0415
        from tarmac.engines.sites.wire import Reached  # noqa: PLC0415
        from tarmac.engines.unicore.client import Unicore  # noqa: PLC0415
        from tarmac.engines.unicore.files import UnicoreFiles  # noqa: PLC0415
        from tarmac.engines.unicore.jobs import UnicoreJobs  # noqa: PLC0415

        settings = read_settings(cluster.settings)

        def reach(site: SiteSettings, login: str | None) -> Reached:
            def credentials() -> Mapping[str, str]:
                named = {} if settings.user is None else {"user": of_user(settings.user, cluster, login)}
                return {**named, **credential_values(cluster, self._supplies, login)}

            interface = Unicore(site.url, credentials, group=settings.group, ca=settings.ca)
            files = UnicoreFiles(interface, str(site.slurm.directory))
            jobs = UnicoreJobs(cluster.name, interface, files, site.slurm, group=settings.group)
            return Reached(files, jobs, interface.close)

        return SiteOfLogins(NAME, cluster, settings.site, self._supplies, reach)
