"""Real servers for tests: homes of their own, ended with the test, and waits on processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from tarmac.client import Client
from tarmac.model.errors import TarmacError
from tarmac.model.home import Home
from tarmac.node.kernel.sockets import readable
from warm_commands import COMMANDS, SERVERS, WARM

PATIENCE_S = 120


class Gate:
    """A FIFO that a worker of a test waits at until the test opens it: `read _ < PATH`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)

    def open(self) -> None:
        """Let one reader through; waits for it to come."""
        with self.path.open("w") as fifo:
            fifo.write("\n")


def ended(pid: int, *, within_s: float = PATIENCE_S) -> bool:
    """Wait for a process to end; whether it did."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return readable(handle, within_s)
    finally:
        os.close(handle)


def end_server(client: Client, number: int = signal.SIGKILL) -> int:
    """Send the server of a client a signal, and wait for its end; returns its process id."""
    pid = client.version().pid
    os.kill(pid, number)
    assert ended(pid)
    return pid


@contextlib.contextmanager
def home_at(path: Path) -> Iterator[Home]:
    """A home whose server, if any, is ended after the block."""
    home = Home(path)
    yield home
    with Client(home=path, start=False) as client, contextlib.suppress(TarmacError):
        pid = client.version().pid
        for run in client.runs(limit=1000).runs:
            if run.state != "ended":
                client.stop(run.id)
                client.wait(run.id, timeout_s=PATIENCE_S)
        client.stop_server()
        assert ended(pid)


def client_of(home: Path) -> Client:
    """A client of a home whose server stands: a fork, while the client alone would start the true program."""
    started = _warm(["server", "start"], home, COMMANDS)
    assert started.returncode == 0, started.stderr
    return Client(home=home)


def run_server(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the program of a server to its end, for servers that are expected to refuse."""
    return _warm(["--home", str(home), *arguments], home, SERVERS)


def _warm(arguments: Sequence[str], home: Path, module: str) -> subprocess.CompletedProcess[str]:
    ended = WARM.run(
        arguments,
        directory=Path("/"),
        environment={**os.environ, "TARMAC_HOME": str(home)},
        limit_s=PATIENCE_S,
        module=module,
    )
    assert ended is not None, "the environment is too large"
    return ended
