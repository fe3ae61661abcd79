"""The SDK inside real runs: checkpoints survive SIGKILL at any moment, `import tarmac` works anywhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from attempts import PATIENCE_S, Warm, python_worker, worker, write_attempt
from tarmac.node.starting import Installation

SAVES = """
import os, tarmac
for step in range(1, 1000000):
    with tarmac.checkpoint(step, keep=3) as directory:
        for part in "ab":
            (directory / part).write_text(str(step) * 1000)
    if step == 3:
        print("ready")
"""


def test_a_process_killed_inside_checkpoint_never_leaves_half_of_one(tmp_path: Path) -> None:
    """Killed at moments that fall anywhere in the cycle; whatever is visible is whole."""
    root = tmp_path / "checkpoint"
    env = {**os.environ, "CHECKPOINT_ARTIFACT_PATH": str(root)}
    for round_number in range(10):
        command = [sys.executable, "-u", "-c", SAVES]
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            process.stdout.readline()
            for _ in range(round_number * 1000):
                pass  # shifts the moment a little, without sleeping
            process.kill()
        look = "import tarmac; print(tarmac.latest_checkpoint())"
        result = subprocess.run(
            [sys.executable, "-c", look], env=env, capture_output=True, text=True, check=True
        )
        latest = Path(result.stdout.strip())
        assert latest.parent == root
        for found in [latest, *root.glob("step-*")]:
            parts = {(found / part).read_text() for part in "ab"}
            assert len(parts) == 1, found
            assert len(parts.pop()) % 1000 == 0


def test_killed_while_saving_the_earlier_one_stays_the_latest(warm: Warm, tmp_path: Path) -> None:
    source = """
import os, signal, sys, tarmac
print(tarmac.latest_checkpoint())
with tarmac.checkpoint(1) as directory:
    (directory / "state").write_text("whole")
with tarmac.checkpoint(2) as directory:
    (directory / "state").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    attempt = write_attempt(tmp_path, [python_worker(source, env={"TARMAC_ATTEMPT": "1", "NODE_RANK": "0"})])
    assert warm.run(attempt)["cause"]["signal"] == "SIGKILL"
    root = Path(attempt.artifacts["checkpoint"])
    assert sorted(path.name for path in root.iterdir()) == ["latest", "step-1"], "the rubbish is gone too"
    again = write_attempt(tmp_path, [python_worker(source)], artifacts=root.parent, number=2)
    warm.run(again)
    assert again.log().splitlines()[0].endswith("/step-1")


def test_reports_reach_the_node_directory(warm: Warm, tmp_path: Path) -> None:
    source = "import tarmac; tarmac.report(step=7, loss=0.5)"
    attempt = write_attempt(tmp_path, [python_worker(source)])
    warm.run(attempt)
    assert json.loads(Path(attempt.node().reports).read_text())["metrics"] == {"loss": 0.5}


def test_an_absent_tarmac_is_made_up_for(tmp_path: Path) -> None:
    """Without site packages there is no tarmac: the shim gives the seven functions, and nothing else."""
    source = "import tarmac; print(tarmac.should_pause(), sorted(tarmac.__all__))"
    assert _shimmed(source, {"PYTHONPATH": Installation("").sdk}) == (
        "False ['checkpoint', 'finished', 'latest_checkpoint', 'parameters', 'report', 'should_pause', "
        "'time_left']\n"
    )


@pytest.mark.parametrize("first", ["shim", "installed"])
def test_an_installed_tarmac_is_preferred(tmp_path: Path, first: str) -> None:
    (tmp_path / "tarmac").mkdir()
    (tmp_path / "tarmac/__init__.py").write_text("from tarmac.inner import word\n")
    (tmp_path / "tarmac/inner.py").write_text("word = 'installed'\n")
    places = [Installation("").sdk, str(tmp_path)]
    path = os.pathsep.join(places if first == "shim" else reversed(places))
    assert _shimmed("import tarmac; print(tarmac.word)", {"PYTHONPATH": path}) == "installed\n"


def test_a_shell_worker_may_look_at_the_pause_file_itself(warm: Warm, tmp_path: Path) -> None:
    script = 'echo ready; until [ -e "$TARMAC_PAUSE_FILE" ]; do sleep 0.01; done'
    attempt = write_attempt(tmp_path, [worker(script)], pause_signal=None)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("preempt")
    assert attempt.ended()["outcome"] == "preempted"


LEFT = "import tarmac; print(tarmac.time_left())"


@pytest.mark.parametrize(
    ("fields", "least", "most"),
    [
        ({"allotted_s": 90.0}, 80, 90),
        ({"allotted_s": 90.0, "allots_setup": True, "setup": [["sleep", "1"]]}, 80, 91),
        ({"allotted_s": 90.0, "setup": [["sleep", "1"]]}, 89.01, 90),
        ({"time_limit_s": 50.0, "allotted_s": 90.0}, 40, 50),
        ({"time_limit_s": 50.0}, 40, 50),
        ({"allotted_s": 0.0}, 0, 0),
    ],
    ids=str,
)
def test_a_worker_is_told_how_much_time_it_has_left(
    warm: Warm, tmp_path: Path, fields: dict[str, Any], least: float, most: float
) -> None:
    """Setting up is part of a block, but not of a turn; the time limit may come first."""
    attempt = write_attempt(tmp_path, [python_worker(LEFT)], **fields)
    assert warm.run(attempt)["outcome"] == "completed"
    assert least <= float(attempt.log()) <= most


def test_without_an_end_there_is_no_time_left_to_tell(warm: Warm, tmp_path: Path) -> None:
    attempt = write_attempt(tmp_path, [python_worker(LEFT)])
    warm.run(attempt)
    assert attempt.log() == "None\n"


def test_once_asked_to_leave_no_time_is_left(warm: Warm, tmp_path: Path) -> None:
    source = """
import tarmac
print("ready")
while tarmac.time_left():
    pass
print("over", tarmac.time_left())
"""
    attempt = write_attempt(tmp_path, [python_worker(source)], pause_signal=None, allotted_s=1000.0)
    warm.start(attempt)
    attempt.wait_for_line("ready")
    attempt.ask("preempt")
    assert attempt.ended()["outcome"] == "preempted"
    assert attempt.log().endswith("over 0.0\n")


def _shimmed(source: str, env: dict[str, str]) -> str:
    command = [sys.executable, "-S", "-s", "-c", source]
    result = subprocess.run(
        command, env=env, cwd="/", capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
