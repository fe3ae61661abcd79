"""The kind of engine with the name `engine: unicore`. Made by `server/wiring.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.settings import credential_values, refuse_pool_rules
from tarmac.engines.unicore.settings import check_credentials, read_settings
from tarmac.model.cluster import Cluster

if TYPE_CHECKING:  # a server without such a cluster does not load its engine: see `open`
    from tarmac.engines.unicore.engine import UnicoreEngine


class UnicoreKind:
    """Opens the engines of clusters behind a UNICORE."""

    def __init__(self, supplies: Supplies) -> None:
        self._supplies = supplies

    def check(self, cluster: Cluster) -> None:
        """Raise InvalidInput for invalid settings."""
        refuse_pool_rules(cluster)
        check_credentials(read_settings(cluster.settings), cluster.credentials)

    def open(self, cluster: Cluster) -> UnicoreEngine:
        """The engine of a cluster."""
        from tarmac.engines.unicore.client import Unicore  # noqa: PLC0415
        from tarmac.engines.unicore.engine import UnicoreEngine  # noqa: PLC0415

        settings, supplies = read_settings(cluster.settings), self._supplies

        def credentials() -> Mapping[str, str]:
            named = {} if settings.user is None else {"user": settings.user}
            return {**named, **credential_values(cluster, supplies)}

        site = Unicore(settings.site.url, credentials, group=settings.group, ca=settings.ca)
        sidecar = supplies.sidecar
        if sidecar is not None and sidecar.is_directory:  # nodes cannot access a store on this machine
            supplies = replace(supplies, sidecar=sidecar.in_directory(settings.site.slurm.directory))
        return UnicoreEngine(cluster.name, settings, supplies, site)
