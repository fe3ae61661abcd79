"""Real servers for tests: homes of their own, ended with the test, and waits on processes."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tarmac.client import Client
from tarmac.model.errors import TarmacError
from tarmac.model.home import Home
from tarmac.node.kernel.sockets import readable

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


def run_server(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m tarmac.server` to its end, for servers that are expected to refuse."""
    return subprocess.run(
        [sys.executable, "-m", "tarmac.server", "--home", str(home), *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
