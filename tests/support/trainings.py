"""The main job in small: the example that trains on digits, on two nodes, paused in the middle and resumed.

For the tests of every engine, with an image and without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from shell import Shell

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/10-digits-ddp"
EPOCHS = "4"
TRAINING_S = 300.0
"""Importing PyTorch takes longer than training, four times over, on a machine busy with other tests."""

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


def train_with_a_pause(
    shell: Shell, *options: str, variables: Mapping[str, str], between: Callable[[], None] = lambda: None
) -> str:
    """Train, pause after two epochs (`between` comes before), resume; what was printed from then on.

    Fails unless training went on where it was paused, on two nodes.
    """
    for name in ("train.py", "model.py"):
        shell.write(name, (EXAMPLE / name).read_text())
    shell.write("held.py", HELD)
    text = (EXAMPLE / "run.yaml").read_text().replace("train.py", "held.py")
    given = [word for pair in variables.items() for word in ("--env", "=".join(pair))]
    follower = shell.start("run", shell.write("run.yaml", text), *options, *given)
    assert follower.stdout is not None
    assert any("epoch  2 " in line for line in follower.stdout), shell.tarmac("show", "digits").stdout
    between()
    shell.tarmac("pause", "digits", "--wait", code=0)
    shell.tarmac("resume", "digits", code=0)
    rest, errors = follower.communicate(timeout=TRAINING_S)
    assert follower.returncode == 0, errors
    assert position("paused at", rest) == position("resumed at", rest)
    attempts = shell.json("show", "digits")["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["paused", "completed"]
    assert {len(attempt["nodes"]) for attempt in attempts} == {2}
    return rest


def position(event: str, text: str) -> tuple[str, ...]:
    """Step, loss and accuracy of the line that tells of `event`."""
    found = re.search(rf"{event} step +(\d+) loss ([\d.]+) accuracy ([\d.]+%)", text)
    assert found, f"nothing was {event} in {text!r}"
    return found.groups()
