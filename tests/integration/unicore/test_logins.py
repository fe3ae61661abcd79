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
from unicore_sites import serving

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("unicore")]

ADA, BOB = user_scope("ada"), user_scope("bob")


def test_each_run_is_a_job_of_the_login_of_its_user(tmp_path: Path, slurm: dict[str, str]) -> None:
    """N15: with its token, in its directory; a login that is gone stops the watching of its runs alone."""
    with serving(tmp_path / "site", **slurm) as site:
        users = site.site.users
        logins = {user_scope(name): {"user": name, "password": users[name].password} for name in users}
        settings = {
            "url": site.url,
            "directory": f"{tmp_path}/site/{{user}}/tarmac",
            "partition": "batch",
            "python": sys.executable,
            "ca": str(site.ca),
            "poll": "1s",
        }
        secrets = {"user": "site-user", "password": "site-password"}
        cluster = Cluster(
            name="site", engine="unicore", settings=settings, credentials=secrets, added_by="ada"
        )
        runs: dict[str, str] = {}

        def credentials(of: Cluster, login: str | None) -> Mapping[str, str]:
            assert of == cluster
            found = logins.get(login or ADA)
            if found is None:
                raise InvalidInput("there is no secret 'site-password' any more")
            return found

        supplies = Supplies(copies=tmp_path / "copies", runs_as=runs.get, credentials=credentials)
        engine = UnicoreKind(supplies).open(cluster)
        engine.read_capacity()
        attempts = {}
        for login in (ADA, BOB):
            run = login.partition(":")[2]
            launch = late(make_launch(("bash", "-c", "pwd; exec sleep 3600"), run_id=run))
            runs[run] = login
            engine.submit(engine.render(launch))
            attempts[login] = launch.attempt_id

        def state(login: str) -> ObservedState:
            return engine.observe(list(attempts.values()))[attempts[login]].state

        def until(login: str, wanted: ObservedState) -> None:
            deadline = time.monotonic() + BOUND_S
            while state(login) is not wanted:
                assert time.monotonic() < deadline, engine.observe(list(attempts.values()))
                Event().wait(AGAIN_S)

        for login, name in ((ADA, "ada"), (BOB, "bob")):
            until(login, ObservedState.RUNNING)
            there = {job.owner for job in site.site.jobs.values() if attempts[login] in str(job.described)}
            assert there == {name}
            assert (
                engine.read(attempts[login], "logs/main.0.0.log")
                .decode()
                .startswith(f"{tmp_path}/site/{name}/tarmac/")
            )
            assert (tmp_path / f"site/{name}/tarmac/runs").exists()

        password = logins.pop(BOB)
        site.site.sessions.clear()
        engine.request_leave(attempts[ADA], LeaveRequest.STOP)
        until(ADA, ObservedState.ENDED)
        logins[BOB] = password
        assert state(BOB) is ObservedState.RUNNING
        engine.request_leave(attempts[BOB], LeaveRequest.STOP)
        until(BOB, ObservedState.ENDED)
        assert engine.observe([attempts[BOB]])[attempts[BOB]].outcome is Outcome.STOPPED
        engine.close()
