"""The server is killed at random moments under a load of short runs: everything accepted happens, once."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from torture import Ordeal, count_all, submit_runs, torture, torture_drain
from torture_pair import torture_pair

from postgres import Missing, running_server
from tarmac.client import Client


@pytest.mark.heavy
@pytest.mark.timeout(240)
def test_nothing_is_lost_or_started_twice_when_the_server_is_killed_under_load(tmp_path: Path) -> None:
    count = torture(tmp_path / "home", runs=200, kills=8, seed=7)
    assert count.accepted == 200
    assert count.kills >= 6
    assert count.clean, count


@pytest.mark.heavy
@pytest.mark.timeout(240)
def test_nothing_is_lost_or_started_twice_when_a_server_is_killed_while_it_drains(tmp_path: Path) -> None:
    """Ends, placements and starts of many runs share a transaction and a request each."""
    count = torture_drain(tmp_path / "home", runs=600, kills=6, seed=3)
    assert count.accepted == 600
    assert count.kills == 6, "each of them before the queue was empty"
    assert count.clean, count


def test_runs_that_are_refused_count_and_the_count_is_not_clean(tmp_path: Path) -> None:
    ordeal = Ordeal(home=tmp_path / "home", starts=tmp_path / "starts.txt", random=Random(1))
    ordeal.starts.touch()
    submit_runs(ordeal, 2, 1, cluster="nowhere")
    count = count_all(ordeal)
    with Client(home=ordeal.home) as client:
        client.stop_server()
    assert (count.accepted, count.refused, count.clean) == (0, 2, False)


@pytest.mark.postgres
@pytest.mark.timeout(240)
def test_two_servers_on_one_database_leave_one_another_alone_when_they_are_struck() -> None:
    """Killed, stopped, cut off from the database: the other one never starts what is not its own."""
    try:
        with (
            running_server() as postgres,
            tempfile.TemporaryDirectory(prefix="tarmac-pair-", dir="/tmp") as root,  # socket paths are short
        ):
            count = torture_pair(Path(root), runs=32, faults=6, seed=11, outage_s=1.0, url=postgres.create())
    except Missing as missing:
        pytest.skip(str(missing))
    assert count.accepted == 32
    assert count.clean, count
