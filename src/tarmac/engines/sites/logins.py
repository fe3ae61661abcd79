"""`OfLogins`: a part of the engine of a site whose runs have logins of their own. Made by the kinds.

Each login has an engine with connections, tokens and a directory of its own, opened at first use. So the
users of one site neither read nor end each other's jobs.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.engine import SiteEngine
from tarmac.engines.slurm.users import OfUsers


class OfLogins(OfUsers):
    """Inherited before a `SiteEngine`, which then answers questions about the site and shows all attempts."""

    def serve_logins(self, cluster: str, supplies: Supplies, make: Callable[[str], SiteEngine]) -> None:
        """Begin; `make` gives the engine of a login, beside this one."""
        self._begin(cluster, supplies)
        self._make = make

    def close(self) -> None:
        for engine in self._opened.values():
            engine.close()
        super().close()

    def _open(self, user: str) -> SiteEngine:
        engine = self._make(user)
        engine.separate(quote(user, safe=""))
        return engine
