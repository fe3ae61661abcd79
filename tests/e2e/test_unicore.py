"""Runs at a site behind UNICORE, over a real Slurm: also with a server that is killed meanwhile (K6, K10)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from threading import Event

import pytest

from shell import LIMIT_S, Shell
from slurm_clusters import Missing, running_slurm
from unicore_far_side import Unicore
from unicore_server import Served
from unicore_sites import serving

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
COUNTS = "for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.5; done"


class Ada:
    """A user of a site, and of a server with that site as a cluster."""

    def __init__(self, shell: Shell, served: Served, variables: dict[str, str]) -> None:
        self.shell = shell
        self.site: Unicore = served.site
        self.place = served.site.users["ada"].directory
        self._variables = variables
        self.set_password("pass of ada")
        settings = {
            "user": "ada",
            "directory": f"{self.place}/tarmac",
            "ca": str(served.ca),
            "partition": "batch",
            "python": sys.executable,
            "poll": "1s",
        }
        given = [f"--set={name}={value}" for name, value in settings.items()]
        password = "--credential=password=site-password"
        where = ("--engine=unicore", f"--url={served.url}", *given, password)
        shell.tarmac("clusters", "add", "juwels", *where, code=0)

    def set_password(self, password: str) -> None:
        self.shell.tarmac("secret", "set", "site-password", "--server", stdin=password, code=0)

    def hold_the_queue(self, held: bool) -> None:
        """A partition that is down takes jobs, and starts none."""
        self.slurm("scontrol", "update", "PartitionName=batch", f"State={'DOWN' if held else 'UP'}")

    def slurm(self, *argv: str) -> str:
        env = {"PATH": "/usr/bin", **self._variables}
        return subprocess.run(argv, env=env, check=True, timeout=120, capture_output=True, text=True).stdout

    def kill_server(self) -> None:
        """End the server at once; the next command starts another."""
        os.kill(self.shell.json("server", "status")["pid"], signal.SIGKILL)
        self.shell.tarmac("ls", code=0)

    def counted(self, text: str) -> int:
        """How many requests had this in them."""
        return sum(text in request for request in self.site.requests)

    def until(self, true: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not true():
            assert time.monotonic() < deadline, what
            Event().wait(0.05)


@pytest.fixture(scope="module")
def ada(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ada]:
    directory = tmp_path_factory.mktemp("site")
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    try:
        with ExitStack() as stack:
            slurm = running_slurm(directory / "slurm", nodes=2, cpus_per_node=16)
            variables = stack.enter_context(slurm)
            served = stack.enter_context(serving(directory / "far", **variables))
            yield Ada(shell, served, variables)
            shell.close()
    except Missing as missing:
        pytest.skip(str(missing))


def test_a_training_with_login_hooks_is_paused_and_resumed_and_its_results_are_fetched(ada: Ada) -> None:
    shell = ada.shell
    gate = ada.place / "gate"
    shell.write("train.py", PROGRAM % gate)
    shell.tarmac("run", shell.write("trains.yaml", TRAINS), "--detach", code=0)
    shell.until("logs", "trains", said="step 3")
    shell.tarmac("pause", "trains", "--wait", code=0)
    gate.touch()
    shell.tarmac("resume", "trains", code=0)
    shell.wait_until("trains", "ended")
    found = shell.json("show", "trains")
    assert (found["run"]["outcome"], len(found["attempts"])) == ("completed", 2)
    text = shell.tarmac("logs", "trains", code=0).stdout
    assert "begins at 0" in text
    assert "done" in text
    setup = shell.tarmac("logs", "trains", "--role", "setup", "--attempt", "2", code=0).stdout
    said = ["ada's login node first", "then the first node", "ada's login node last"]
    assert [line for line in setup.splitlines() if line in said] == said
    assert "loss" in shell.tarmac("metrics", "trains", code=0).stdout
    shell.until("artifacts", "ls", "trains", said="checkpoint")


def test_a_check_tries_each_step_and_names_the_one_that_failed(ada: Ada) -> None:
    shell = ada.shell
    findings = shell.json("clusters", "check", "juwels")["findings"]
    assert all(finding["ok"] for finding in findings), findings
    ada.set_password("a wrong one")
    try:
        refused = shell.tarmac("clusters", "check", "juwels", code=1).stdout
        assert "token" in refused
        assert "no user there" in refused
    finally:
        ada.set_password("pass of ada")
    assert shell.tarmac("clusters", "check", "juwels", code=0)


def test_no_run_is_lost_or_doubled_whatever_the_server_did_when_it_was_killed(ada: Ada) -> None:
    """K7: while it uploads, creates jobs, waits in the queue, runs, and fetches reports."""
    shell, site = ada.shell, ada.site
    ada.hold_the_queue(True)
    known = len(site.jobs)
    names = [f"run{number}" for number in range(RUNS)]
    for name in names:
        where = ("--cluster", "juwels", "--name", name, "--detach", "--no-code")
        shell.tarmac("run", *where, "--", "bash", "-c", COUNTS, code=0)
    ada.kill_server()
    ada.until(lambda: len(site.jobs) > known + 1, "no job was created")
    site.knobs.fails_after = ["POST /jobs", "/actions/start"]
    ada.kill_server()
    ada.until(lambda: len(site.jobs) >= known + RUNS, "not all were created")
    ada.kill_server()
    ada.hold_the_queue(False)
    ada.until(lambda: "running" in shell.tarmac("ls").stdout, "none runs")
    reads = ada.counted("GET /storages")
    ada.kill_server()
    ada.until(lambda: ada.counted("GET /storages") > reads + 10, "no report is fetched")
    ada.kill_server()
    for name in names:
        shell.wait_until(name, "ended")
        found = shell.json("show", name)
        assert (found["run"]["outcome"], len(found["attempts"])) == ("completed", 1), found
        assert shell.tarmac("logs", name, code=0).stdout.split() == list("12345678")
    began = [job for job in site.jobs.values() if job.batch_id]
    tags = [job.described["Tags"][1] for job in began]
    assert len(tags) == len(set(tags))
