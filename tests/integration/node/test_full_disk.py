"""A worker that fills the disk: it is supervised to its end all the same, and the end is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = """
import sys
from pathlib import Path
from tarmac.node import mounts, syscalls
try:
    mounts._enter()
    syscalls.mount("small", sys.argv[1], "tmpfs", 0, "size=1m")
except OSError as error:
    print("not allowed:", error)
    raise SystemExit(0)
from attempts import warm_parent, worker, write_attempt
fills = worker("cat /dev/zero; echo $? > /dev/null; exit 3")
stays = worker("echo ready; sleep 100", replica=1)
attempt = write_attempt(Path(sys.argv[1]), {"n0": [fills], "n1": [stays]})
with warm_parent() as warm:
    warm.start(attempt, "n1")
    attempt.wait_for_line("ready", log="main.1.0")
    warm.start(attempt, "n0")
    end = attempt.ended("n0")
    print(end["outcome"], end["cause"]["exit_code"], attempt.kinds("n0"))
    told = attempt.ended("n1")
    print(told["outcome"], told["cause"]["message"])
"""


def test_a_full_disk_does_not_end_the_supervision(tmp_path: Path) -> None:
    support = Path(__file__).parents[2] / "support"
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(support)!r})\n{SCENARIO}",
        str(tmp_path),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if result.stdout.startswith("not allowed"):
        pytest.skip(f"this machine gives no small disk to fill: {result.stdout.strip()}")
    assert result.returncode == 0, result.stderr
    first, second = result.stdout.splitlines()
    assert first.startswith("failed 3 ['claimed', 'worker_started', 'running', 'first_output',")
    assert first.endswith("'worker_ended', 'ended']")
    assert second == "failed worker main.0.0 on n0 exited with 3"
