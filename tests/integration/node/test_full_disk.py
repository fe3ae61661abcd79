"""A worker that fills the disk: it is supervised to its end all the same, and the end is reported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCENARIO = """
import sys
from pathlib import Path
from tarmac.node.kernel import mounts, syscalls
try:
    mounts.enter_own_view()
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

HOG = """
import os, sys
from pathlib import Path
from tarmac.node.kernel import mounts, syscalls
try:
    mounts.enter_own_view()
    syscalls.mount("small", sys.argv[1], "tmpfs", 0, "size=128m")
except OSError as error:
    print("not allowed:", error)
    raise SystemExit(0)
with open(f"{sys.argv[1]}/filler", "wb") as filler:
    if TAKEN:
        syscalls.reserve(filler.fileno(), TAKEN << 20)
from attempts import wait_until, warm_parent, worker, write_attempt
hog = worker("echo first; while true; do head -c 200000 /dev/zero | tr \\\\0 x; echo; done 2> /dev/null")
attempt = write_attempt(Path(sys.argv[1]), {"n0": [hog]})
with warm_parent() as warm:
    warm.start(attempt, "n0")
    note = attempt.path / "logs" / "main.0.0.cut"
    wait_until(lambda: note.exists() or None, "the log is not cut")
    attempt.ask("stop")
    print(attempt.ended("n0")["outcome"], attempt.log("main.0.0")[:6].strip())
    found, log = os.statvfs(attempt.path), os.stat(attempt.path / "logs" / "main.0.0.log")
    print(found.f_bavail * found.f_frsize + log.st_blocks * 512 > 5 << 20)
    print([event["text"] for event in attempt.events("n0") if event["kind"] == "notice"][0])
"""


@pytest.mark.parametrize("taken_mib", [0, 122])
def test_a_log_that_fills_the_disk_gives_way_and_its_run_can_be_stopped(
    tmp_path: Path, taken_mib: int
) -> None:
    """Also where the disk is almost full before the run starts: the log leaves free what it takes itself."""
    first, second, third = _inside(HOG.replace("TAKEN", str(taken_mib)), tmp_path)
    assert (first, second) == ("stopped first", "True")
    assert third == "the disk was almost full: the middle of long ones is left out"


def test_a_full_disk_does_not_end_the_supervision(tmp_path: Path) -> None:
    first, second = _inside(SCENARIO, tmp_path)
    first = first.replace("'notice', ", "")  # what was removed is reported at any time
    assert first.startswith("failed 3 ['claimed', 'worker_started', 'running', 'first_output',")
    assert first.endswith("'worker_ended', 'ended']")
    assert second == "failed worker main.0.0 on n0 exited with 3"


def _inside(scenario: str, place: Path) -> list[str]:
    """What a program prints that mounts a small disk of its own, where it may."""
    support = Path(__file__).parents[2] / "support"
    program = f"import sys; sys.path.insert(0, {str(support)!r})\n{scenario}"
    command = [sys.executable, "-c", program, str(place)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
    if result.stdout.startswith("not allowed"):
        pytest.skip(f"this machine gives no small disk to fill: {result.stdout.strip()}")
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()
