"""`SiteEngine`: attempts as jobs of a Slurm at a site. Made by the kinds of engines for sites."""

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.sites.access import TAKE_KEY, SiteAccess
from tarmac.engines.sites.host import SiteHost
from tarmac.engines.sites.login_hooks import login_scripts, without_login_hooks
from tarmac.engines.sites.packing import unpacking
from tarmac.engines.sites.settings import SiteSettings, of_login
from tarmac.engines.sites.wire import Reached
from tarmac.engines.slurm.delivery import COMPILE
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.script import SlurmRequest
from tarmac.engines.slurm.settings import Tempo
from tarmac.engines.slurm.users import OfUsers
from tarmac.launch.quoting import join
from tarmac.model import codec
from tarmac.model.abilities import Pace
from tarmac.model.cluster import Cluster
from tarmac.node.attempt.document import Launch

IDLE_S = 60.0
REPORT_LAG_S = 150.0
"""Records of a site arrive late, and are missing for a while: a job without any has not ended at once."""


class SiteEngine(SlurmEngine):
    """The engine of one cluster at a site; `kind` is the name of its engine."""

    def __init__(
        self,
        kind: str,
        cluster: str,
        settings: SiteSettings,
        supplies: Supplies,
        reached: Reached,
        *,
        tempo: Tempo | None = None,
        beside: SlurmEngine | None = None,
    ) -> None:
        self.name = kind
        self._reached = reached
        copies = supplies.copies / cluster
        host = SiteHost(settings.slurm.directory, reached.files, f"at {cluster}", copies=copies)
        poll_s = settings.poll_s
        tempo = tempo or Tempo(
            query_s=poll_s, idle_s=max(IDLE_S, poll_s), look_s=poll_s, report_lag_s=REPORT_LAG_S
        )
        access = SiteAccess(reached.jobs, host)
        super().__init__(
            cluster, settings.slurm, supplies, host=host, access=access, tempo=tempo, beside=beside
        )

    def separate(self, name: str) -> None:
        """Prepare attempts in a directory of this name, beside those of other engines of the cluster."""
        self._host.seen.staging = self._host.seen.home / f"staging-{name}"

    def close(self) -> None:
        self._reached.close()

    def render(self, launch: Launch) -> SlurmRequest:
        """Commands for the login node run there if the site can do that, else on the first node."""
        if not self._reached.jobs.at_login:
            return super().render(launch)
        directory = self._host.directory(launch.attempt_id)
        request = super().render(without_login_hooks(launch, directory))
        return replace(request, login_scripts=login_scripts(launch, directory))

    def pace(self) -> Pace:
        return codec.replace(super().pace(), read_s=self._tempo.look_s)

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


class SiteOfLogins(OfUsers, SiteEngine):
    """The engine of a site whose runs have logins of their own. That of the user who added the cluster:
    it answers questions about the site, and shows all attempts.

    Each login has an engine with connections, tokens and a directory of its own, opened at first use. So the
    users of one site neither read nor end each other's jobs. `reach` connects a login (None: its own).
    """

    def __init__(
        self,
        kind: str,
        cluster: Cluster,
        settings: SiteSettings,
        supplies: Supplies,
        reach: Callable[[SiteSettings, str | None], Reached],
    ) -> None:
        def given(login: str | None) -> tuple[SiteSettings, Supplies, Reached]:
            of_one, supplies_of_one = of_login(settings, supplies, cluster, login)
            return of_one, supplies_of_one, reach(of_one, login)

        super().__init__(kind, cluster.name, *given(None))
        self._begin(cluster.name, supplies)
        self._given = given

    def close(self) -> None:
        for engine in self._opened.values():
            engine.close()
        super().close()

    def _open(self, user: str) -> SiteEngine:
        engine = SiteEngine(self.name, self._cluster, *self._given(user), beside=self)
        engine.separate(quote(user, safe=""))
        return engine
