"""Runs at a site behind a firecREST, over a real Slurm: also with a server that is killed meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from firecrest_calls import SYSTEM
from firecrest_far_side import FarSide
from firecrest_server import Client, Firecrest, serving
from shell import LIMIT_S, Shell
from slurm_clusters import Missing, running_slurm

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("firecrest")]

CLIENT, SECRET = "a-client", "the secret of a client"
RUNS = int(os.environ.get("SITE_RUNS", "12"))

TRAINS = """name: trains
cluster: daint
slots: 1
code: .
pause: {grace: 20s}
command: python train.py
"""
PROGRAM = """
import os, time, tarmac
found = tarmac.latest_checkpoint()
step = int((found / "step").read_text()) if found else 0
print("begins at", step, flush=True)
while step < 3 or not os.path.exists("%s"):
    step += 1
    tarmac.report(step=step, loss=1 / step)
    with tarmac.checkpoint(step=step) as place:
        (place / "step").write_text(str(step))
    print("step", step, flush=True)
    if tarmac.should_pause():
        raise SystemExit(0)
    time.sleep(0.5)
print("done", flush=True)
"""


class Site:
    """A user with a client of a firecREST, whose far side is a Slurm of two nodes."""

    def __init__(self, shell: Shell, server: Firecrest, place: Path, variables: dict[str, str]) -> None:
        self.shell = shell
        self.server = server
        self.place = place
        self._variables = variables
        shell.tarmac("secret", "set", "site-id", "--server", stdin=CLIENT, code=0)
        shell.tarmac("secret", "set", "site-secret", "--server", stdin=SECRET, code=0)
        settings = {
            "token_url": server.token_url,
            "system": SYSTEM,
            "directory": f"{place}/runs",
            "partition": "batch",
            "python": sys.executable,
            "poll": "1s",
        }
        given = [f"--set={name}={value}" for name, value in settings.items()]
        credentials = ("--credential=client_id=site-id", "--credential=client_secret=site-secret")
        where = ("--engine=firecrest", f"--url={server.url}", *given, *credentials)
        shell.tarmac("clusters", "add", "daint", *where, code=0)

    def hold_the_queue(self, held: bool) -> None:
        """A partition that is down takes jobs, and starts none."""
        self.slurm("scontrol", "update", "PartitionName=batch", f"State={'DOWN' if held else 'UP'}")

    def slurm(self, *argv: str) -> str:
        env = {"PATH": "/usr/bin", **self._variables}
        return subprocess.run(argv, env=env, check=True, timeout=120, capture_output=True, text=True).stdout

    def jobs(self) -> list[str]:
        """The names of all jobs."""
        return self.slurm("squeue", "--noheader", "--states=all", "--format=%j").split()

    def kill_server(self) -> None:
        """End the server at once; the next command starts another."""
        os.kill(self.shell.json("server", "status")["pid"], signal.SIGKILL)

    def until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not true():
            assert time.monotonic() < deadline, what
            Event().wait(0.05)

    def ended(self, run: str) -> dict[str, Any]:
        """A run once it has ended, with its attempts."""
        self.shell.wait_until(run, "ended")
        found: dict[str, Any] = self.shell.json("show", run)
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    directory = tmp_path_factory.mktemp("site")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    try:
        with running_slurm(directory / "slurm", nodes=2, cpus_per_node=16) as variables:
            client = Client(SECRET, FarSide("root", (), variables))
            (far := directory / "far").mkdir()
            with serving(Firecrest({CLIENT: client}, (str(far),))) as server:
                yield Site(shell, server, far, variables)
                shell.close()
    except Missing as missing:
        pytest.skip(str(missing))


def test_a_training_at_a_site_is_paused_and_resumed_and_its_results_are_fetched(site: Site) -> None:
    """K10: states, logs, metrics and output files of a run without a connection to its nodes."""
    shell = site.shell
    gate = site.place / "gate"
    shell.write("train.py", PROGRAM % gate)
    shell.tarmac("run", shell.write("trains.yaml", TRAINS), "--detach", code=0)
    shell.until("logs", "trains", said="step 3")
    shell.tarmac("pause", "trains", "--wait", code=0)
    gate.touch()
    shell.tarmac("resume", "trains", code=0)
    found = site.ended("trains")
    assert (found["run"]["outcome"], len(found["attempts"])) == ("completed", 2)
    text = shell.tarmac("logs", "trains", code=0).stdout
    assert "begins at 0" in text
    assert "done" in text
    assert "loss" in shell.tarmac("metrics", "trains", code=0).stdout
    shell.until("artifacts", "ls", "trains", said="checkpoint")
    shell.tarmac("artifacts", "get", "trains", "-o", "fetched", code=0)
    last = max(int(path.read_text()) for path in (shell.directory / "fetched").rglob("step"))
    assert f"step {last}" in text
    checks = shell.json("clusters", "check", "daint")["findings"]
    assert all(finding["ok"] for finding in checks), checks


def test_no_run_is_lost_or_doubled_whatever_the_server_did_when_it_was_killed(site: Site) -> None:
    """While it uploads, submits, waits in the queue, runs, and fetches reports."""
    shell, calls = site.shell, site.server.calls
    command = "for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.5; done"
    site.hold_the_queue(True)
    uploads, submits = calls["upload"], calls["submit"]
    names = [f"run{number}" for number in range(RUNS)]
    for name in names:
        shell.tarmac(
            "run",
            "--cluster",
            "daint",
            "--name",
            name,
            "--detach",
            "--no-code",
            "--",
            "bash",
            "-c",
            command,
            code=0,
        )
    site.until(lambda: calls["upload"] > uploads + 2, "no upload")
    site.kill_server()
    shell.tarmac("ls", code=0)
    site.until(lambda: calls["submit"] > submits + 2, "no submission")
    site.server.knobs.loses = 2
    site.kill_server()
    shell.tarmac("ls", code=0)
    site.until(lambda: calls["submit"] >= submits + RUNS, "not all were submitted")
    site.kill_server()
    shell.tarmac("ls", code=0)
    site.hold_the_queue(False)
    site.until(lambda: "running" in shell.tarmac("ls").stdout, "none runs")
    site.kill_server()
    shell.tarmac("ls", code=0)
    downloads = calls["download"] + calls["view"]
    site.until(lambda: calls["download"] + calls["view"] > downloads + 2, "no report is fetched")
    site.kill_server()
    for name in names:
        found = site.ended(name)
        assert (found["run"]["outcome"], len(found["attempts"])) == ("completed", 1), found
        assert shell.tarmac("logs", name, code=0).stdout.split() == list("12345678")
        ids = found["run"]["id"]
        assert site.jobs().count(f"tarmac-{ids}.1") == 1
