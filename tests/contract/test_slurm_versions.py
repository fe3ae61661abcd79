"""The Slurm engine over stand-ins that answer as the versions do which sites have, from 20.11 on."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from engine_harness import Work, ended, started
from slurm_clusters import install_standin
from slurm_harness import StandInHarness
from tarmac.model.cluster import Cluster
from tarmac.model.progress import CauseCode, Outcome

pytestmark = pytest.mark.xdist_group("slurm")

BETWEEN = ("21.08.8", "22.05.8", "23.11.10")
VERSIONS = (
    *("20.11.9", "23.02.7", "25.05.1"),
    *(pytest.param(version, marks=pytest.mark.heavy) for version in BETWEEN),
)
SITE = Cluster(name="site", engine="slurm")
LEFT_S = 7_200


@pytest.fixture
def knobs(tmp_path: Path) -> Path:
    return tmp_path / "standin"


@pytest.fixture(params=VERSIONS)
def standin(request: pytest.FixtureRequest, tmp_path: Path, knobs: Path) -> Iterator[StandInHarness]:
    variables = install_standin(knobs)
    (knobs / "version").write_text(request.param)
    made = StandInHarness(tmp_path / "site", variables)
    yield made
    made.close()


def test_each_version_runs_an_attempt_and_says_how_it_ended(standin: StandInHarness, knobs: Path) -> None:
    """Checked, given nodes, told when its job ends, cancelled by somebody, and forgotten by the queue."""
    findings = standin.engine.examine(SITE)
    assert [finding for finding in findings if not finding.ok] == []
    assert {node.capacity.slots for node in standin.engine.capacity()} == {4}
    (offer,) = standin.engine.queues()
    assert (offer.longest_s, offer.most_nodes) == (86_400.0, None)

    (knobs / "ends-in").write_text(str(LEFT_S))
    standin.knob("accounting", True)
    leaves = ("bash", "-c", 'echo "at $TARMAC_LEAVE_AT"; echo working; exec sleep 3600')
    attempt = started(standin, Work(lasts=True), nodes=2, argvs=dict.fromkeys((0, 1), leaves))
    at = float(standin.engine.read(attempt, "logs/main.1.0.log").split()[1])
    assert 0 < at - time.time() < LEFT_S
    job = standin.job(attempt)
    standin.knob("completing", True)
    standin.command("scancel", job)
    over = standin.settle(attempt, ended)
    assert over.cause is not None
    assert (over.outcome, over.cause.code) == (Outcome.STOPPED, CauseCode.USER_REQUEST)
    standin.engine.reap(attempt)
    standin.knob(f"forgotten/{job}", True)
    standin.engine = standin.open()
    assert standin.settle(attempt, ended).outcome is Outcome.STOPPED
    assert standin.calls("sbatch") == 2, "one to judge a job, one job"


@pytest.mark.parametrize("version", ["20.02.7", "19.05.8"])
def test_an_older_version_is_refused_by_the_check(tmp_path: Path, version: str) -> None:
    variables = install_standin(tmp_path / "standin")
    (tmp_path / "standin/version").write_text(version)
    made = StandInHarness(tmp_path / "site", variables)
    texts = [finding.text for finding in made.engine.examine(SITE) if not finding.ok]
    assert texts
    assert all("older than 20.11" in text for text in texts)
    made.close()
