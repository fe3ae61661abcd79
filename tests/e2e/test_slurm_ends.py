"""Every end that a job may have, produced by a real Slurm of four nodes, and what `show` and `why` say of it.

What takes more than a minute, or what this Slurm cannot be brought to do, is in docs/using/slurm-ends.md.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from shell import LIMIT_S, Shell
from slurm_clusters import Missing, running_slurm

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-ends")]

LINES = """
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=short Nodes=n[1-2] MaxTime=1 State=UP
PartitionName=low Nodes=n[3-4] PriorityTier=1 PreemptMode=CANCEL State=UP
PartitionName=high Nodes=n[3-4] PriorityTier=10 PreemptMode=OFF State=UP
"""
LASTS = """name: lasts
cluster: {cluster}
slots: {slots}
pause: {{grace: {grace}}}
command: |
  if [ -e "$CHECKPOINT_ARTIFACT_PATH/seen" ]; then echo resumed; else echo fresh; fi
  touch "$CHECKPOINT_ARTIFACT_PATH/seen"
  exec sleep 3600
"""
FAILS = "name: fails\ncluster: batch\nslots: 1\ncommand: echo out of luck; exit 3\n"


class Site:
    """A user at a Slurm: its partitions are clusters of the same names."""

    def __init__(self, shell: Shell, directory: Path) -> None:
        self.shell = shell
        self.directory = directory
        for partition in ("batch", "short", "low"):
            settings = f"{{directory: {directory}/shared-{partition}, partition: {partition}}}"
            text = f"name: {partition}\nengine: slurm\nsettings: {settings}\n"
            shell.tarmac("clusters", "add", shell.write(f"{partition}.yaml", text), code=0)

    def start(self, name: str, *, cluster: str = "batch", slots: int = 1, grace: str = "1s") -> None:
        """Start a run that lasts, and says on each start whether it has begun before."""
        file = self.shell.write("lasts.yaml", LASTS.format(cluster=cluster, slots=slots, grace=grace))
        self.shell.tarmac("run", file, "--name", name, "--detach", code=0)

    def wait_for(self, run: str, line: str) -> None:
        """Until the newest attempt of a run has written this line."""
        following = self.shell.start("logs", "-f", run)
        assert following.stdout is not None
        found = any(line in each for each in following.stdout)
        following.kill()
        following.communicate()
        assert found, self.shell.tarmac("show", run).stdout

    def until_why(self, run: str, text: str) -> None:
        """Until `tarmac why` says so of a run."""
        deadline = time.monotonic() + LIMIT_S
        while text not in (said := self.shell.tarmac("why", run, code=0).stdout):
            assert time.monotonic() < deadline, said

    def job(self, run: str) -> str:
        """The id of the job of its newest attempt."""
        found: str = self.attempts(run)[-1]["native"]["id"]
        return found

    def attempts(self, run: str) -> list[dict[str, Any]]:
        """Its attempts, oldest first."""
        found: list[dict[str, Any]] = self.shell.json("show", run)["attempts"]
        return found

    def save_jobs(self, run: str) -> None:
        """Have the controller write its jobs down: killed before, it gives their numbers once more.

        It does so after a change; the last one may have been written before anybody saw that the run runs.
        """
        since = time.time()
        slurm("scontrol", "update", f"job={self.job(run)}", "AdminComment=saved")
        state = self.directory / "slurm/state/job_state"
        deadline = time.monotonic() + LIMIT_S
        while not state.exists() or state.stat().st_mtime < since:
            assert time.monotonic() < deadline, "the controller does not write its state down"
            Event().wait(0.1)

    def pid(self, daemon: str) -> int:
        """That of one of Slurm's daemons."""
        return int((self.directory / "slurm" / f"{daemon}.pid").read_text())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A Slurm of four nodes with two processors each; nodes 3 and 4 are also in partitions that preempt."""
    directory = tmp_path_factory.mktemp("site")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    before = os.environ.get("SLURM_CONF")
    try:
        with running_slurm(directory / "slurm", nodes=4, cpus_per_node=2, lines=LINES) as variables:
            os.environ |= variables
            yield Site(shell, directory)
            shell.close()
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        os.environ.pop("SLURM_CONF", None)
        os.environ |= {"SLURM_CONF": before} if before is not None else {}


def slurm(*argv: str) -> None:
    """Run one of Slurm's commands as an administrator."""
    subprocess.run(argv, check=True, timeout=120, capture_output=True)


def ended(site: Site, run: str, number: int) -> dict[str, Any]:
    """An attempt of a run that goes on in the next one: `resumed`, from what it kept."""
    deadline = time.monotonic() + LIMIT_S
    while len(site.attempts(run)) == number:
        assert time.monotonic() < deadline, site.shell.tarmac("show", run).stdout
    site.wait_for(run, "resumed")
    found = site.attempts(run)[number - 1]
    page = site.shell.tarmac("show", run, code=0).stdout
    assert f"attempt {number} was {found['outcome']}: {found['cause']['message']}" in page
    assert site.shell.json("show", run)["run"]["failures"] == 0
    return found


def test_what_slurm_takes_back_goes_on_in_another_job_and_what_fails_has_failed(site: Site) -> None:
    site.shell.tarmac("run", site.shell.write("fails.yaml", FAILS), "--detach", code=0)
    site.start("preempted", cluster="low", slots=4)
    site.start("requeued")
    site.wait_for("preempted", "fresh")
    slurm(
        "sbatch",
        "--partition=high",
        "--nodes=2",
        "--ntasks-per-node=2",
        "--output=/dev/null",
        "--wrap=sleep 1",
    )
    site.wait_for("requeued", "fresh")
    job = site.job("requeued")
    slurm("scontrol", "update", f"job={job}", "Requeue=1")
    slurm("scontrol", "requeue", job)

    first = ended(site, "requeued", 1)
    assert (first["outcome"], first["cause"]["code"]) == ("preempted", "preemption")
    assert first["cause"]["message"] == f"job {job} was put back into Slurm's queue after it had begun"
    first = ended(site, "preempted", 1)
    assert (first["outcome"], first["cause"]["code"]) == ("preempted", "preemption")
    assert re.fullmatch(r"job \d+ was preempted by Slurm for another job", first["cause"]["message"])
    site.shell.tarmac("stop", "--wait", "preempted", "requeued", code=0)

    why = site.shell.tarmac("why", "fails", code=0).stdout
    assert "it ended, failed: worker main.0.0 on n1 exited with 3" in why
    assert "out of luck" in why


@pytest.mark.skipif("SLURM_ENDS" not in os.environ, reason="takes a minute: run with SLURM_ENDS=1")
def test_the_controller_may_die_and_a_node_be_lost(site: Site) -> None:
    site.start("node-lost", slots=2)
    site.wait_for("node-lost", "fresh")
    site.save_jobs("node-lost")
    os.kill(site.pid("slurmctld"), 9)
    site.shell.tarmac("pause", "node-lost", "--wait", code=0)  # goes through the directory
    site.shell.tarmac("resume", "node-lost", code=0)
    site.until_why("node-lost", "does not answer now: ")
    subprocess.run(["slurmctld"], check=True, timeout=120)
    site.wait_for("node-lost", "resumed")

    site.shell.wait_until("node-lost", "running")
    lost = site.attempts("node-lost")[-1]["nodes"][0]
    os.kill(site.pid(f"slurmd-{lost}"), 9)  # what it runs goes on, and is stopped before the next attempt
    slurm("scontrol", "update", f"nodename={lost}", "state=down", "reason=test")
    job = site.job("node-lost")
    second = ended(site, "node-lost", 2)
    assert (second["outcome"], second["cause"]["code"]) == ("lost", "node_lost")
    assert second["cause"]["message"] == f"job {job} lost a node"
    assert all(worker["ended_at"] for worker in second["workers"])
    assert lost not in site.attempts("node-lost")[-1]["nodes"]
