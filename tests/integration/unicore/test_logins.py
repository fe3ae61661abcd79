"""One cluster of a server for the users of a site, each with a login of their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event

import pytest

from engine_harness import BOUND_S, make_launch
from slurm_harness import AGAIN_S, late
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.unicore.kind import UnicoreKind
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import Outcome
from tarmac.model.secret import user_scope
from unicore_server import Served
from unicore_sites import serving

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("unicore")]

ADA = user_scope("ada")


class Users:
    """A cluster of a server whose users have logins of their own at the site.

    Their `names` are in a setting, as here, or in secrets.
    """

    def __init__(self, directory: Path, site: Served, names: str) -> None:
        known = site.site.users
        self.logins = {user_scope(name): {"user": name, "password": known[name].password} for name in known}
        credentials = {"user": "site-user", "password": "site-password"}
        self.attempts: dict[str, str] = {}
        settings = {
            "url": site.url,
            "directory": f"{directory}/site/{{user}}/tarmac",
            "partition": "batch",
            "python": sys.executable,
            "ca": str(site.ca),
            "poll": "1s",
        }
        if names == "setting":
            settings["user"] = "{user}"
            for secrets in (*self.logins.values(), credentials):
                del secrets["user"]
        self.cluster = Cluster(
            name="site",
            engine="unicore",
            settings=settings,
            credentials=credentials,
            added_by="ada",
        )
        supplies = Supplies(copies=directory / "copies", runs_as=user_scope, credentials=self._credentials)
        self.engine = UnicoreKind(supplies).open(self.cluster)
        self.engine.read_capacity()

    def _credentials(self, of: Cluster, login: str | None) -> Mapping[str, str]:
        assert of == self.cluster
        found = self.logins.get(login or ADA)
        if found is None:
            raise InvalidInput("there is no secret 'site-password' any more")
        return found

    def submit(self, user: str) -> None:
        launch = late(make_launch(("bash", "-c", "pwd; exec sleep 3600"), run_id=user))
        self.engine.submit(self.engine.render(launch))
        self.attempts[user] = launch.attempt_id

    def state(self, user: str) -> ObservedState:
        return self.engine.observe(list(self.attempts.values()))[self.attempts[user]].state

    def until(self, user: str, wanted: ObservedState) -> None:
        deadline = time.monotonic() + BOUND_S
        while self.state(user) is not wanted:
            assert time.monotonic() < deadline, self.engine.observe(list(self.attempts.values()))
            Event().wait(AGAIN_S)


@pytest.mark.parametrize("names", ["secret", "setting"])
def test_each_run_is_a_job_of_the_login_of_its_user(
    tmp_path: Path, slurm: dict[str, str], names: str
) -> None:
    """N15: with its token, in its directory; a login that is gone stops the watching of its runs alone."""
    with serving(tmp_path / "site", **slurm) as site:
        users = Users(tmp_path, site, names)
        for name in ("ada", "bob"):
            users.submit(name)
        for name, attempt in users.attempts.items():
            users.until(name, ObservedState.RUNNING)
            owners = {job.owner for job in site.site.jobs.values() if attempt in str(job.described)}
            assert owners == {name}
            log = users.engine.read(attempt, "logs/main.0.0.log").decode()
            assert log.startswith(f"{tmp_path}/site/{name}/tarmac/")

        password = users.logins.pop(user_scope("bob"))
        site.site.sessions.clear()
        users.engine.request_leave(users.attempts["ada"], LeaveRequest.STOP)
        users.until("ada", ObservedState.ENDED)
        users.logins[user_scope("bob")] = password
        users.until("bob", ObservedState.RUNNING)
        users.engine.request_leave(users.attempts["bob"], LeaveRequest.STOP)
        users.until("bob", ObservedState.ENDED)
        ended = users.engine.observe([users.attempts["bob"]])[users.attempts["bob"]]
        assert ended.outcome is Outcome.STOPPED
        users.engine.close()
