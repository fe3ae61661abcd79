"""Runs at a site behind UNICORE, over a real Slurm: also with a server that is killed meanwhile (K6, K10)."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from site_users import SiteUser, user_of_unicore
from slurm_clusters import Missing
from unicore_server import Served

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("unicore")]

RUNS = int(os.environ.get("SITE_RUNS", "8"))
TRAINS = """name: trains
cluster: juwels
slots: 2
nodes: 2
pause: {grace: 20s}
environment: {variables: {WHO: "ada's"}}
hooks:
  before_login: [echo "$WHO login node first"]
  before: [echo then the first node]
  after_login: [echo "$WHO login node last"]
code: .
command: python train.py
"""
Site = tuple[SiteUser, Served]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    try:
        with user_of_unicore(tmp_path_factory.mktemp("site")) as made:
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


def test_a_training_with_login_hooks_is_paused_and_resumed_and_its_results_are_fetched(site: Site) -> None:
    user, _ = site
    user.train_with_a_pause(TRAINS)
    setup = user.shell.tarmac("logs", "trains", "--role", "setup", "--attempt", "2", code=0).stdout
    said = ["ada's login node first", "then the first node", "ada's login node last"]
    assert [line for line in setup.splitlines() if line in said] == said


def test_a_check_tries_each_step_and_names_the_one_that_failed(site: Site) -> None:
    user, _ = site
    findings = user.shell.json("clusters", "check", "juwels")["findings"]
    assert all(finding["ok"] for finding in findings), findings
    user.set_secret("password", "a wrong one")
    try:
        refused = user.shell.tarmac("clusters", "check", "juwels", code=1).stdout
        assert "token" in refused
        assert "no user there" in refused
    finally:
        user.set_secret("password", "pass of ada")
    assert user.shell.tarmac("clusters", "check", "juwels", code=0)


def test_no_run_is_lost_or_doubled_whatever_the_server_did_when_it_was_killed(site: Site) -> None:
    """K7: while it uploads, creates jobs, waits in the queue, runs, and fetches reports."""
    user, served = site
    far = served.site
    user.hold_the_queue(True)
    known = len(far.jobs)
    names = [f"run{number}" for number in range(RUNS)]
    user.submit_counts("juwels", names)
    user.kill_server()
    user.until(lambda: len(far.jobs) > known + 1, "no job was created")
    far.knobs.fails_after = ["POST /jobs", "/actions/start"]
    user.kill_server()
    user.until(lambda: len(far.jobs) >= known + RUNS, "not all were created")
    user.kill_server()
    user.hold_the_queue(False)
    user.until(lambda: "running" in user.shell.tarmac("ls").stdout, "none runs")
    reads = far.counted("GET /storages")
    user.kill_server()
    user.until(lambda: far.counted("GET /storages") > reads + 10, "no report is fetched")
    user.kill_server()
    for name in names:
        user.counted_once(name)
    began = [job for job in far.jobs.values() if job.batch_id]
    tags = [job.described["Tags"][1] for job in began]
    assert len(tags) == len(set(tags))
