"""Commands on a host: none outlives the connection that it was run for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from tarmac.node.host.operations import Commands

ENDS_WHILE_THEY_BEGIN = """
import os, sys
from threading import Thread
from tarmac.node.host.operations import Commands

commands = Commands()
run = lambda: commands.run(["sleep", sys.argv[1]], env=dict(os.environ), timeout_s=600.0)
for _ in range(30):
    Thread(target=run, daemon=True).start()
commands.end()
os._exit(0)
"""


def test_a_command_that_begins_while_the_connection_ends_does_not_outlive_it() -> None:
    seconds = f"3600.{time.monotonic_ns()}"
    subprocess.run([sys.executable, "-c", ENDS_WHILE_THEY_BEGIN, seconds], check=True, timeout=120)
    deadline = time.monotonic() + 60
    while left := living(seconds):
        assert time.monotonic() < deadline, left
        Event().wait(0.05)


def living(word: str) -> list[str]:
    """The processes with this word on their command line."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


def test_no_command_begins_once_the_connection_has_ended() -> None:
    commands = Commands()
    thread = Thread(target=commands.end)
    thread.start()
    thread.join(60)
    with pytest.raises(OSError, match="no command begins any more"):
        commands.run(["true"], env={}, timeout_s=60.0)
