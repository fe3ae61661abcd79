"""`SiteEngine`: attempts as jobs of a Slurm at a site. Made by the kinds of engines for sites."""

from collections.abc import Callable
from urllib.parse import quote

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.access import TAKE_KEY, SiteAccess
from tarmac.engines.sites.host import SiteHost
from tarmac.engines.sites.packing import unpacking
from tarmac.engines.sites.settings import SiteSettings
from tarmac.engines.sites.wire import SiteFiles, SiteJobs
from tarmac.engines.slurm.delivery import COMPILE
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.settings import Tempo
from tarmac.engines.slurm.users import OfUsers
from tarmac.launch.quoting import join
from tarmac.model.abilities import Pace
from tarmac.model.codec import replace
from tarmac.node.attempt.document import Launch

IDLE_S = 60.0
REPORT_LAG_S = 150.0
"""Records of a site arrive late, and are missing for a while: a job without any has not ended at once."""


class SiteEngine(SlurmEngine):
    """The engine of one cluster at a site; `kind` is the name of its engine.

    `release` closes its connections.
    """

    def __init__(
        self,
        kind: str,
        cluster: str,
        settings: SiteSettings,
        supplies: Supplies,
        *,
        files: SiteFiles,
        jobs: SiteJobs,
        release: Callable[[], None],
        tempo: Tempo | None = None,
        beside: SlurmEngine | None = None,
    ) -> None:
        self.name = kind
        self._release = release
        copies = supplies.copies / cluster
        host = SiteHost(settings.slurm.directory, files, f"at {cluster}", copies=copies)
        poll_s = settings.poll_s
        tempo = tempo or Tempo(
            query_s=poll_s, idle_s=max(IDLE_S, poll_s), look_s=poll_s, report_lag_s=REPORT_LAG_S
        )
        access = SiteAccess(jobs, host)
        super().__init__(
            cluster, settings.slurm, supplies, host=host, access=access, tempo=tempo, beside=beside
        )

    def separate(self, name: str) -> None:
        """Prepare attempts in a directory of this name, beside those of other engines of the cluster."""
        self._host.seen.staging = self._host.seen.home / f"staging-{name}"

    def close(self) -> None:
        self._release()

    def pace(self) -> Pace:
        return replace(super().pace(), read_s=self._tempo.look_s)

    def _preparation(self, launch: Launch) -> str:
        """The job unpacks what came in parts, and takes the key of its secrets."""
        installed = self._delivery.installation
        code = [str(self._host.layout.code(launch.code_digest))] if launch.code_digest else []
        return TAKE_KEY + unpacking(
            str(self._host.layout.home),
            [str(self._delivery.version), *code],
            take=join(installed.take("", "")[:-2]),
            compile_with=join([installed.python, *COMPILE]),
        )


class OfLogins(OfUsers):
    """A part of the engine of a site whose runs have logins of their own: inherited before a `SiteEngine`,
    which then answers questions about the site and shows all attempts.

    Each login has an engine with connections, tokens and a directory of its own, opened at first use. So the
    users of one site neither read nor end each other's jobs.
    """

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
