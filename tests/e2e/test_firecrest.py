"""Runs at a site behind a firecREST, over a real Slurm: also with a server that is killed meanwhile."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from firecrest_server import Firecrest
from site_users import SiteUser, user_of_firecrest
from slurm_clusters import Missing

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("firecrest")]

RUNS = int(os.environ.get("SITE_RUNS", "12"))
TRAINS = """name: trains
cluster: daint
slots: 1
code: .
pause: {grace: 20s}
command: python train.py
"""
Site = tuple[SiteUser, Firecrest]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    try:
        with user_of_firecrest(tmp_path_factory.mktemp("site")) as made:
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


def test_a_training_at_a_site_is_paused_and_resumed_and_its_results_are_fetched(site: Site) -> None:
    """K10: states, logs, metrics and output files of a run without a connection to its nodes."""
    user, _ = site
    user.train_with_a_pause(TRAINS)
    checks = user.shell.json("clusters", "check", "daint")["findings"]
    assert all(finding["ok"] for finding in checks), checks


def test_no_run_is_lost_or_doubled_whatever_the_server_did_when_it_was_killed(site: Site) -> None:
    """While it uploads, submits, waits in the queue, runs, and fetches reports."""
    user, server = site
    calls = server.calls
    user.hold_the_queue(True)
    uploads, submits = calls["upload"], calls["submit"]
    names = [f"run{number}" for number in range(RUNS)]
    user.submit_counts("daint", names)
    user.until(lambda: calls["upload"] > uploads + 2, "no upload")
    user.kill_server()
    user.until(lambda: calls["submit"] > submits + 2, "no submission")
    server.knobs.loses = 2
    user.kill_server()
    user.until(lambda: calls["submit"] >= submits + RUNS, "not all were submitted")
    user.kill_server()
    user.hold_the_queue(False)
    user.until(lambda: "running" in user.shell.tarmac("ls").stdout, "none runs")
    user.kill_server()
    reads = calls["download"] + calls["view"]
    user.until(lambda: calls["download"] + calls["view"] > reads + 2, "no report is fetched")
    user.kill_server()
    for name in names:
        run_id = user.counted_once(name)
        jobs = user.slurm("squeue", "--noheader", "--states=all", "--format=%j").split()
        assert jobs.count(f"tarmac-{run_id}.1") == 1
