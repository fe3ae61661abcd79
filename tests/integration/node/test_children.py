"""Who has left is known with how they left, however the moment falls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tarmac

PROGRAM = """
import os, sys
from tarmac.node.processes.children import Children
from tarmac.node.processes.spawn import Command

children = Children()
run = {"env": dict(os.environ), "directory": ".", "log": "log"}
nothing, _ = os.pipe()
guard = children.start(Command(["cat"], stdout="out", stdin=nothing, **run), aside=True)
for _ in range(40):
    worker = children.start(Command(["bash", "-c", "exit 3"], **run))
    while not children.none_left:
        children.reap()
    assert (worker.left, worker.exit_code) == (True, 3), (worker.left, worker.exit_code)
children.end_aside(guard)
print("all were reaped")
"""


@pytest.mark.timeout(120)
def test_nothing_is_left_only_once_all_were_reaped(tmp_path: Path) -> None:
    """Also beside a process that stays: a worker that leaves while we look is not overlooked.

    In a process that has no other children.
    """
    source = str(Path(tarmac.__file__).parents[1])
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (found.returncode, found.stdout) == (0, "all were reaped\n"), found.stderr
