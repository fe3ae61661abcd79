"""The Slurm engine under the contract of engines: over stand-ins of its commands, and over a real Slurm."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engine_harness import BOUND_S, WORKING, Work, make_launch, running, script
from ssh_hosts import LoginHost
from tarmac.engines.hosts.host import Host, local_host
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.hosts.remote import SshHost
from tarmac.engines.slurm import files
from tarmac.engines.slurm.commands import Commands
from tarmac.engines.slurm.engine import SlurmEngine
from tarmac.engines.slurm.settings import Tempo, read_settings
from tarmac.model.ports import Observation
from tarmac.model.secret import SecretValues, no_secrets
from tarmac.node.attempt.document import Launch, Mount
from tarmac.node.attempt.protocol import late_address, rank_name

AGAIN_S = 0.1
TEMPO = Tempo(query_s=0.0, idle_s=0.0, report_lag_s=0.0)


class SlurmHarness:
    """The engine over a Slurm that is there; `variables` are what its commands need to find it."""

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self.home = home
        self.secrets: SecretValues = no_secrets
        self.variables = dict(variables)
        self.engine = self.open()
        self._started: list[str] = []

    def open(self, tempo: Tempo = TEMPO) -> SlurmEngine:
        """An engine on the directory, as a server that comes (back) would make it."""
        settings = {"directory": str(self.home), "partition": "batch", "python": sys.executable}
        engine = SlurmEngine(
            "site",
            read_settings(settings),
            # A test may replace the secrets.
            Supplies(copies=self.home, secrets=lambda names: self.secrets(names)),  # noqa: PLW0108
            host=self.host(),
            tempo=tempo,
        )
        engine.read_capacity()
        return engine

    def host(self) -> Host:
        """Where its commands work."""
        return local_host(self.home, variables=self.variables)

    def launch(self, work: Work, **wanted: Any) -> Launch:
        missing = (Mount(source="/no/such/source", target=work.misses),) if work.misses else ()
        launch = late(make_launch(("bash", "-c", script(work)), mounts=missing, **wanted))
        self._started.append(launch.attempt_id)
        return launch

    def settle(self, attempt: str, until: Callable[[Observation], bool]) -> Observation:
        deadline = time.monotonic() + BOUND_S
        while not until(seen := self.engine.observe([attempt])[attempt]):
            assert time.monotonic() < deadline, f"{attempt} is still {seen}"
            Event().wait(AGAIN_S)
        return seen

    def at_work(self, attempt: str) -> None:
        deadline = time.monotonic() + BOUND_S
        self.settle(attempt, running)
        for worker in self.engine.workers(attempt):
            while WORKING.encode() not in self.engine.read(attempt, worker.log):
                assert time.monotonic() < deadline, f"{worker} does not get to work"
                Event().wait(AGAIN_S / 4)

    def close(self) -> None:
        for attempt in self._started:
            self.engine.reap(attempt)

    def job(self, attempt: str) -> str:
        """The id of the job of an attempt."""
        native = self.engine.observe([attempt])[attempt].native
        assert native is not None
        return native.id

    def command(self, *argv: str) -> str:
        """Run one of Slurm's commands as somebody else might."""
        return Commands(host=local_host(self.home, variables=self.variables)).query(argv)


class StandInHarness(SlurmHarness):
    """Over the stand-ins."""

    def hold_the_queue(self, held: bool) -> None:
        """While it is held, the system gives nodes to nobody."""
        self.knob("held", held)

    def forget(self, attempt: str) -> None:
        """The system loses a job that waits."""
        self.knob(f"forgotten/{self.job(attempt)}", True)

    def knob(self, name: str, on: bool) -> None:
        """Make or remove a file that turns a knob of the stand-ins."""
        path = Path(self.variables["STANDIN"]) / name
        if on:
            path.touch()
        else:
            path.unlink(missing_ok=True)

    def becomes(self, job: str, state: str, **more: object) -> None:
        """The system says so of a job, whatever its processes do."""
        path = Path(self.variables["STANDIN"]) / "jobs" / f"{job}.job"
        with path.open("a") as file:
            file.writelines(f"{name}={value}\n" for name, value in {"state": state, **more}.items())

    def calls(self, command: str) -> int:
        """How often a command was run."""
        return (Path(self.variables["STANDIN"]) / "calls").read_text().split().count(command)


class SshHarness(StandInHarness):
    """Over the stand-ins at a host behind SSH, which has a disk of its own; `near` is on this machine."""

    def __init__(self, near: Path, variables: Mapping[str, str], login: LoginHost) -> None:
        self.near = near
        self.login = login
        self.ssh = login.ssh
        super().__init__(login.private / near.name, variables)

    def host(self) -> Host:
        copies = self.near / "copies"
        return SshHost(
            self.home,
            self.ssh,
            python=sys.executable,
            copies=copies,
            files=files.COPIED,
            variables=self.variables,
        )

    def close(self) -> None:
        super().close()
        assert not self.login.apart or not self.home.exists(), "nothing of it is here"


class RealSlurmHarness(SlurmHarness):
    """Over a real Slurm."""

    def hold_the_queue(self, held: bool) -> None:
        """A partition that is down takes jobs, and starts none."""
        self._scontrol("update", "PartitionName=batch", f"State={'DOWN' if held else 'UP'}")

    def forget(self, _attempt: str) -> None:
        pytest.skip("a real Slurm forgets no job before five minutes have passed")

    def close(self) -> None:
        super().close()
        self.hold_the_queue(False)

    def _scontrol(self, *words: str) -> None:
        subprocess.run(
            ["scontrol", *words], env={"PATH": "/usr/bin", **self.variables}, check=True, timeout=120
        )


def late(launch: Launch) -> Launch:
    """A launch on nodes that nobody knows yet."""
    nodes = tuple(
        node._replace(node=rank_name(node.rank), address=late_address(node.rank)) for node in launch.nodes
    )
    return launch._replace(nodes=nodes)
