"""The main job in small: real distributed training on two nodes, paused and resumed, beside one unpaused."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

from shell import Shell
from trainings import EPOCHS, EXAMPLE, TRAINING_S, position, train_with_a_pause

pytestmark = [
    pytest.mark.timeout(900),
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make demo"),
]


def test_a_paused_training_ends_exactly_as_one_that_never_was(shell: Shell) -> None:
    """D12, I14: model, optimizer, position and random states all come back, on every worker."""
    given = [word for pair in variables(shell).items() for word in ("--env", "=".join(pair))]
    follower = shell.start("run", str(EXAMPLE / "run.yaml"), "--rehearse", "2x1", *given)
    unbroken, errors = follower.communicate(timeout=TRAINING_S)
    assert position("finished at", unbroken), errors

    rest = train_with_a_pause(shell, "--rehearse", "2x1", variables=variables(shell))
    assert position("finished at", rest) == position("finished at", unbroken)


def variables(shell: Shell) -> dict[str, str]:
    """Those of a training on the loopback, by the Python that runs the tests."""
    programs = Path(sys.executable).parent
    path = f"{programs}{os.pathsep}{shell.environment()['PATH']}"
    return {"EPOCHS": EPOCHS, "GLOO_SOCKET_IFNAME": "lo", "PATH": path}
