"""A user of a site over a real Slurm, and their training. Used by the end-to-end tests of sites."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

from firecrest_calls import SYSTEM
from firecrest_far_side import FarSide
from firecrest_server import Client, Firecrest
from firecrest_server import serving as serving_firecrest
from shell import LIMIT_S, Shell
from slurm_clusters import running_slurm
from unicore_server import Served
from unicore_sites import serving as serving_unicore

CLIENT, SECRET = "a-client", "the secret of a client"
COMMON = ("--set=partition=batch", "--set=poll=1s", f"--set=python={sys.executable}")

WEIGHTS_BYTES = 9 << 20
"""More than an interface sends at once."""

PROGRAM = f"""
import os, time, tarmac
found = tarmac.latest_checkpoint()
step = int((found / "step").read_text()) if found else 0
print("begins at", step, flush=True)
while step < 4 or not os.path.exists("GATE"):
    step += 1
    tarmac.report(step=step, loss=1 / step)
    with tarmac.checkpoint(step=step) as place:
        (place / "step").write_text(str(step))
        if step > 3:
            (place / "weights").write_bytes(os.urandom({WEIGHTS_BYTES}))
    print("step", step, flush=True)
    if tarmac.should_pause():
        raise SystemExit(0)
    time.sleep(0.5)
print("done", flush=True)
"""
COUNTS = "for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 0.5; done"


class SiteUser:
    """A user of a server with a site as a cluster; `place` is a directory of the user at the site."""

    def __init__(self, shell: Shell, place: Path, variables: Mapping[str, str]) -> None:
        self.shell = shell
        self.place = place
        self._variables = variables

    def add(self, name: str, engine: str, secrets: Mapping[str, str], *options: str) -> None:
        """Add the site as a cluster, with a secret of the server for each credential."""
        credentials = []
        for use, value in secrets.items():
            self.set_secret(use, value)
            credentials.append(f"--credential={use}=site-{use}")
        where = (f"--engine={engine}", *COMMON, *credentials, *options)
        self.shell.tarmac("clusters", "add", name, *where, code=0)

    def set_secret(self, use: str, value: str) -> None:
        self.shell.tarmac("secret", "set", f"site-{use}", "--server", stdin=value, code=0)

    def slurm(self, *argv: str) -> str:
        env = {"PATH": "/usr/bin", **self._variables}
        return subprocess.run(argv, env=env, check=True, timeout=120, capture_output=True, text=True).stdout

    def hold_the_queue(self, held: bool) -> None:
        """A partition that is down takes jobs, and starts none."""
        self.slurm("scontrol", "update", "PartitionName=batch", f"State={'DOWN' if held else 'UP'}")

    def kill_server(self) -> None:
        """End the server at once, and start another."""
        os.kill(self.shell.json("server", "status")["pid"], signal.SIGKILL)
        self.shell.tarmac("ls", code=0)

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

    def submit_counts(self, cluster: str, names: list[str]) -> None:
        """Submit runs that count to eight."""
        for name in names:
            where = ("--cluster", cluster, "--name", name, "--detach", "--no-code")
            self.shell.tarmac("run", *where, "--", "bash", "-c", COUNTS, code=0)

    def counted_once(self, name: str) -> str:
        """Insist that a run has counted in one attempt; its id."""
        found = self.ended(name)
        assert (found["run"]["outcome"], len(found["attempts"])) == ("completed", 1), found
        assert self.shell.tarmac("logs", name, code=0).stdout.split() == list("12345678")
        run_id: str = found["run"]["id"]
        return run_id

    def train_with_a_pause(self, file: str) -> str:
        """Train, pause after three steps, resume and fetch the results; what the training printed."""
        shell, gate = self.shell, self.place / "gate"
        shell.write("train.py", PROGRAM.replace("GATE", str(gate)))
        shell.tarmac("run", shell.write("trains.yaml", file), "--detach", code=0)
        shell.until("logs", "trains", said="step 3")
        shell.tarmac("pause", "trains", "--wait", code=0)
        gate.touch()
        shell.tarmac("resume", "trains", code=0)
        found = self.ended("trains")
        assert (found["run"]["outcome"], len(found["attempts"])) == ("completed", 2)
        text = shell.tarmac("logs", "trains", code=0).stdout
        assert "begins at 0" in text
        assert "done" in text
        assert "loss" in shell.tarmac("metrics", "trains", code=0).stdout
        shell.until("artifacts", "ls", "trains", said="checkpoint")
        shell.tarmac("artifacts", "get", "trains", "-o", "fetched", code=0)
        last = max(int(path.read_text()) for path in (shell.directory / "fetched").rglob("step"))
        assert f"step {last}" in text
        weights = [path.stat().st_size for path in (shell.directory / "fetched").rglob("weights")]
        assert set(weights) == {WEIGHTS_BYTES}
        return text


@contextmanager
def user_of_slurm(directory: Path) -> Iterator[tuple[Shell, dict[str, str], ExitStack]]:
    """A user and a Slurm of two nodes. Raises slurm_clusters.Missing."""
    shell = Shell(directory / "home", directory / "project")
    shell.directory.mkdir()
    with ExitStack() as closing:
        slurm = running_slurm(directory / "slurm", nodes=2, cpus_per_node=16)
        variables = closing.enter_context(slurm)
        yield shell, variables, closing
        shell.close()


@contextmanager
def user_of_firecrest(directory: Path) -> Iterator[tuple[SiteUser, Firecrest]]:
    """A user with a client of a firecREST, which is the cluster `daint`."""
    with user_of_slurm(directory) as (shell, variables, closing):
        (far := directory / "far").mkdir()
        client = Client(SECRET, FarSide("root", (), variables))
        server = closing.enter_context(serving_firecrest(Firecrest({CLIENT: client}, (str(far),))))
        user = SiteUser(shell, far, variables)
        where = (f"--url={server.url}", f"--token-url={server.token_url}", f"--system={SYSTEM}")
        secrets = {"client_id": CLIENT, "client_secret": SECRET}
        user.add("daint", "firecrest", secrets, *where, f"--set=directory={far}/runs")
        yield user, server


@contextmanager
def user_of_unicore(directory: Path) -> Iterator[tuple[SiteUser, Served]]:
    """A user `ada` of a UNICORE, which is the cluster `juwels`."""
    with user_of_slurm(directory) as (shell, variables, closing):
        served = closing.enter_context(serving_unicore(directory / "far", **variables))
        place = served.site.users["ada"].directory
        user = SiteUser(shell, place, variables)
        where = (f"--url={served.url}", "--set=user=ada", f"--set=ca={served.ca}")
        password = {"password": "pass of ada"}
        user.add("juwels", "unicore", password, *where, f"--set=directory={place}/tarmac")
        yield user, served
