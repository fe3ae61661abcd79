"""The main job in small on a real Ray: trained on two machines, the server killed, paused, and resumed."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_clusters import RayNodes
from shell import Shell

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/10-digits-ddp"

HELD = """
import time
import tarmac
import train

class Held(train.Training):
    def say(self, what):
        super().say(what)
        while what == "epoch  2" and not tarmac.should_pause():
            time.sleep(0.01)

train.Training = Held
train.main()
"""
"""The training, which goes no further than two epochs before it is paused."""

TRAINING_S = 300.0

pytestmark = [
    pytest.mark.real_engine,
    pytest.mark.xdist_group("ray"),
    pytest.mark.timeout(900),
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make demo"),
]


@pytest.fixture
def shell(tmp_path: Path, cluster: RayNodes) -> Iterator[Shell]:
    """A user whose server has added the Ray, with one slot on each node."""
    made = Shell(tmp_path / "home", tmp_path / "project")
    made.directory.mkdir()
    settings = {**cluster.settings(), "slots": "1", "directory": str(cluster.far / "trained")}
    address = settings.pop("address")
    given = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    made.tarmac("clusters", "add", "gpus", "--engine", "ray", "--address", address, *given, code=0)
    try:
        for number in range(3):
            made.until("nodes", said=f"h{number}.gpus")
        yield made
    finally:
        made.close()


def test_a_training_goes_on_where_it_was_paused(shell: Shell) -> None:
    for name in ("train.py", "model.py"):
        shell.write(name, (EXAMPLE / name).read_text())
    shell.write("held.py", HELD)
    text = (EXAMPLE / "run.yaml").read_text().replace("train.py", "held.py")
    variables = {
        "EPOCHS": "4",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    given = [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
    follower = shell.start("run", shell.write("run.yaml", text), "--cluster", "gpus", *given)
    assert follower.stdout is not None
    assert any("epoch  2 " in line for line in follower.stdout)
    os.kill(shell.json("server", "status")["pid"], signal.SIGKILL)
    shell.tarmac("pause", "digits", "--wait", code=0)
    shell.tarmac("resume", "digits", code=0)
    rest, errors = follower.communicate(timeout=TRAINING_S)
    assert follower.returncode == 0, errors
    assert position("paused at", rest) == position("resumed at", rest)
    attempts = shell.json("show", "digits")["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["paused", "completed"]
    assert {len(attempt["nodes"]) for attempt in attempts} == {2}


def position(event: str, text: str) -> tuple[str, ...]:
    """Step, loss and accuracy of the line that tells of `event`."""
    found = re.search(rf"{event} step +(\d+) loss ([\d.]+) accuracy ([\d.]+%)", text)
    assert found, f"nothing was {event} in {text!r}"
    return found.groups()
