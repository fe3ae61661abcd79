"""Three ends of a run in an image, after which nothing of it may be left. For the tests of every engine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from shell import Shell

LASTS = """name: gone-{how}
slots: 1
command: |
  setsid sh -c 'while true; do sleep 0.1; done' &
  echo ready
  sleep 600
"""
"""With a daemon that has left its session."""

LEAST = 3
"""The shell, the daemon, and what one of them waits for."""


def ends_without_remains(shell: Shell, *options: str) -> None:
    """After a stop, after `kill -9` of the runner, after `kill -9` of the server."""
    for how in ("stop", "runner", "server"):
        name = f"gone-{how}"
        file = shell.write(f"{name}.yaml", LASTS.format(how=how))
        shell.tarmac("run", "-d", file, *options, code=0)
        shell.until("logs", name, said="ready")
        run = shell.json("show", name)["run"]["id"]
        assert len(processes_of(run)) >= LEAST
        if how == "server":
            os.kill(shell.json("server", "status")["pid"], signal.SIGKILL)
        if how == "runner":
            os.kill(runner_of(run), signal.SIGKILL)
            shell.until("show", run, said="lost")
        shell.tarmac("stop", run, "--wait", code=0)
        assert processes_of(run) == [], how


def processes_of(run: str) -> list[int]:
    """The processes whose environment names the run."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"TARMAC_RUN_ID={run}".encode() in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
        except OSError:
            continue
    return found


def runner_of(run: str) -> int:
    """The first of their ancestors that is none of the run's own processes."""
    parent = processes_of(run)[0]
    while b"tarmac/node" not in Path(f"/proc/{parent}/cmdline").read_bytes():
        status = Path(f"/proc/{parent}/status").read_text()
        parent = int(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])
    return parent
