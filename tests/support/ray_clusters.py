"""A real Ray for tests: three nodes on this machine, each with addresses, processes and a disk of its own.

Network and process namespaces stand for machines; what is at `far` is another directory in each of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tarmac.engines.ray.servers.commands import OUTLASTS_HEAD

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-bench/bin"
NODES = 3
PORT = 6399
START_S = 300.0
START_TRIES = 4
TOKEN = "ab" * 32

INIT = """import signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print(flush=True)
while True:
    signal.pause()"""
# The first process of a node, there for as long as the machine would be.

VARIABLES = {
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": TOKEN,
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_health_check_initial_delay_ms": "1000",
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "1000",
    "RAY_gcs_storage": "rocksdb",
    **OUTLASTS_HEAD,
}


MISSED_CHECKS = 10
"""After so many seconds without an answer Ray takes a node for lost: on a busy machine answers come late."""


class MissingRay(Exception):
    """There can be no such Ray on this machine."""


@dataclass
class RayNodes:
    """The cluster. Nodes by number; 0 is the head."""

    root: Path
    subnet: str
    prefix: str
    missed_checks: int = MISSED_CHECKS
    inits: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def far(self) -> Path:
        """Where each node has a disk of its own."""
        return self.root / "far"

    @property
    def address(self) -> str:
        """The head's."""
        return f"{self.subnet}.10:{PORT}"

    @property
    def token_file(self) -> Path:
        """The token that it takes."""
        return self.root / "token"

    @property
    def python(self) -> Path:
        """A Python with Ray, which runs as on the head wherever it is started."""
        return self.root / "python"

    def namespace(self, number: int) -> str:
        """The network of a node."""
        return f"{self.prefix}{number}"

    def settings(self) -> dict[str, str]:
        """The settings of a cluster that is this Ray."""
        return {
            "address": self.address,
            "directory": str(self.far),
            "python": str(self.python),
            "token_file": str(self.token_file),
            "slots": "4",
        }

    def on(self, number: int, *argv: str, check: bool = True) -> str:
        """Run a command on a node; what it prints."""
        init = self._child(number)
        found = subprocess.run(
            ["nsenter", "-t", str(init), "-m", "-u", "-n", "-p", "--", *argv],
            env={
                **os.environ,
                **VARIABLES,
                "RAY_health_check_failure_threshold": str(self.missed_checks),
                "RAY_gcs_storage_path": str(self.root / "gcs"),
            },
            capture_output=True,
            text=True,
            check=False,
            timeout=START_S,
        )
        assert not check or found.returncode == 0, (argv, found.stdout, found.stderr)
        return found.stdout

    def start_ray(self, number: int) -> None:
        """Start Ray on a node; again where that took Ray too long, as it may on a busy machine."""
        head = ["--head", "--port", str(PORT), "--include-dashboard", "false"]
        argv = [
            str(BIN / "ray"),
            "start",
            *(head if number == 0 else ["--address", self.address]),
            *("--node-ip-address", f"{self.subnet}.{10 + number}"),
            *("--num-cpus", "2", "--object-store-memory", "100000000", "--disable-usage-stats"),
            *("--temp-dir", str(self.root / f"t{number}")),
        ]
        for _ in range(START_TRIES):
            try:
                self.on(number, *argv)
            except (AssertionError, subprocess.TimeoutExpired) as problem:
                if "timed out" not in str(problem):
                    raise
                self.end_ray(number)
            else:
                return
        raise AssertionError(f"Ray does not start on node {number}")

    def end_ray(self, number: int, *programs: str) -> None:
        """Kill programs of Ray on a node: gcs_server, raylet; all that is Ray's there, if none is named.

        They have ended afterwards: a head that is started meanwhile finds its tables locked.
        """
        names = "|".join(programs) or "gcs_server|raylet|ray::|site-packages/ray/|bin/ray start"
        self.on(number, "pkill", "-9", "-f", names, check=False)
        self.on(number, "pidwait", "-f", names, check=False)

    def end_agents(self, number: int) -> None:
        """Kill our agent on a node, not the runners."""
        self.on(number, "pkill", "-9", "-f", "exec.sys.stdin.buffer", check=False)

    def cut(self, number: int) -> None:
        """Cut the link to a node."""
        subprocess.run(["ip", "link", "set", f"{self.prefix}v{number}", "down"], check=True)

    def restore(self, number: int) -> None:
        """Mend it."""
        subprocess.run(["ip", "link", "set", f"{self.prefix}v{number}", "up"], check=True)

    def _child(self, number: int) -> int:
        """The first process of a node, as we see it."""
        parent = self.inits[number].pid
        return int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])


@contextmanager
def running_ray(root: Path, *, missed_checks: int = MISSED_CHECKS) -> Iterator[RayNodes]:
    """A Ray of three nodes; raises MissingRay where there can be none."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("nsenter") is None:
        raise MissingRay("a Ray of several nodes needs root and network namespaces")
    if not (BIN / "ray").exists():
        raise MissingRay("Ray is not installed: make test-engines")
    number = os.getpid()
    made = RayNodes(
        root, f"10.{64 + number // 250 % 64}.{number % 250}", f"tr{number % 100_000}n", missed_checks
    )
    for directory in (root, made.far):
        directory.mkdir(parents=True, exist_ok=True)
    made.token_file.write_text(TOKEN)
    made.python.write_text(f'#!/bin/sh\nexec ip netns exec {made.namespace(0)} {BIN / "python"} "$@"\n')
    made.python.chmod(0o755)
    try:
        _lay_links(made)
        for node in range(NODES):
            _begin(made, node)
        made.start_ray(0)
        with ThreadPoolExecutor(NODES) as threads:
            list(threads.map(made.start_ray, range(1, NODES)))
        yield made
    finally:
        _end(made)


def _lay_links(made: RayNodes) -> None:
    bridge = f"{made.prefix}b"
    try:
        _ip("link", "add", bridge, "type", "bridge")
    except subprocess.CalledProcessError as error:
        raise MissingRay("there can be no network namespaces here") from error
    _ip("addr", "add", f"{made.subnet}.1/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    for node in range(NODES):
        name, link = made.namespace(node), f"{made.prefix}v{node}"
        hosts = Path("/etc/netns") / name / "hosts"
        hosts.parent.mkdir(parents=True, exist_ok=True)
        address = f"{made.subnet}.{10 + node}"
        hosts.write_text(f"127.0.0.1 localhost\n{address} h{node} {os.uname().nodename}\n")
        _ip("netns", "add", name)
        _ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", link, "master", bridge, "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")


def _begin(made: RayNodes, node: int) -> None:
    """The machine, with its own processes, name and disk, and nothing of Ray yet."""
    disk = made.root / f"disk{node}"
    disk.mkdir()
    script = f"hostname h{node} && mount --bind {disk} {made.far} && exec {sys.executable} -c '{INIT}'"
    made.inits[node] = subprocess.Popen(
        [
            *("ip", "netns", "exec", made.namespace(node)),
            *("unshare", "-pfu", "--mount-proc", "--kill-child", "sh", "-c", script),
        ],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    pipe = made.inits[node].stdout
    assert pipe is not None
    assert pipe.readline() == b"\n", "the machine did not begin"


def _end(made: RayNodes) -> None:
    for process in made.inits.values():
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
    for node in range(NODES):
        name = made.namespace(node)
        subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
        shutil.rmtree(Path("/etc/netns") / name, ignore_errors=True)
    subprocess.run(["ip", "link", "del", f"{made.prefix}b"], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
