"""The main job in small: real distributed training on two nodes, paused and resumed, beside one unpaused."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from shell import Shell

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/10-digits-ddp"

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
"""The same training, which goes no further than two epochs before it is paused."""

TRAINING_S = 240.0
"""Importing PyTorch takes longer than training, four times over, on a machine busy with other tests."""

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make demo"),
]


def test_a_paused_training_ends_exactly_as_one_that_never_was(shell: Shell) -> None:
    """D12, I14: model, optimizer, position and random states all come back, on every worker."""
    unbroken, errors = shell.start("run", str(EXAMPLE / "run.yaml"), *options(shell)).communicate(
        timeout=TRAINING_S
    )
    assert position("finished at", unbroken), errors

    for name in ("train.py", "model.py"):
        shell.write(name, (EXAMPLE / name).read_text())
    shell.write("held.py", HELD)
    text = (EXAMPLE / "run.yaml").read_text()
    follower = shell.start(
        "run", shell.write("run.yaml", text.replace("train.py", "held.py")), *options(shell)
    )
    assert follower.stdout is not None
    assert any("epoch  2 " in line for line in follower.stdout)
    shell.tarmac("pause", "digits", "--wait", code=0)
    shell.tarmac("resume", "digits", code=0)
    rest, errors = follower.communicate(timeout=TRAINING_S)

    assert follower.returncode == 0, errors
    paused, resumed = position("paused at", rest), position("resumed at", rest)
    assert paused == resumed
    assert position("finished at", rest) == position("finished at", unbroken)
    assert [attempt["outcome"] for attempt in shell.json("show", "digits")["attempts"]] == [
        "paused",
        "completed",
    ]


def options(shell: Shell) -> list[str]:
    """Options of `tarmac run`: two nodes on the loopback, and the Python that runs the tests."""
    programs = Path(sys.executable).parent
    variables = {
        "EPOCHS": "4",
        "GLOO_SOCKET_IFNAME": "lo",
        "PATH": f"{programs}{os.pathsep}{shell.environment()['PATH']}",
    }
    given = [part for name, value in variables.items() for part in ("--env", f"{name}={value}")]
    return ["--rehearse", "2x1", *given]


def position(event: str, text: str) -> tuple[str, ...]:
    """Step, loss and accuracy of the line that tells of `event`."""
    found = re.search(rf"{event} step +(\d+) loss ([\d.]+) accuracy ([\d.]+%)", text)
    assert found, f"nothing was {event} in {text!r}"
    return found.groups()
