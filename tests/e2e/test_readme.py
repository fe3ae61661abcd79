"""What README teaches about pausing does what it says: its snippets are run as they are printed."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from shell import Shell

README = Path(__file__).resolve().parents[2] / "README.md"

PRELUDE = """
import os, time
from pathlib import Path

def load(start):
    first = int((start / "step").read_text()) if start else 0
    print("starts at", first)
    global steps
    steps = 10**9 if os.environ["TARMAC_ATTEMPT"] == "1" else first + 3
    return first

def train(step):
    global reached
    reached = step
    time.sleep(0.01)
    if step == 5:
        print("in the middle")
    return 1.0 / (step + 1)

def save(directory):
    (directory / "step").write_text(str(reached))
    print("saved at", reached)

steps = 0
"""
"""What a training of the reader's own would have: the snippet is about the rest."""


def block(language: str, mark: str) -> str:
    """The first block of README in a language that has `mark` in it."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    return next(text for text in blocks if mark in text)


def test_the_lines_of_the_sdk_pause_and_resume_without_losing_a_step(shell: Shell) -> None:
    shell.write("train.py", PRELUDE + block("python", "should_pause"))
    shell.write("run.yaml", f"name: digits\ncode: .\ncommand: {sys.executable} train.py\n")
    pause_and_resume(shell, "run.yaml")
    saved, resumed = places(shell)
    assert saved == resumed
    assert len(saved) == 1


@pytest.mark.torch
@pytest.mark.timeout(300)
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed: make demo")
def test_so_they_do_below_torchrun_started_by_the_run_file_of_the_readme(shell: Shell) -> None:
    """Two nodes, each with a torchrun that knows nothing of tarmac: signalled, it would end its workers."""
    shell.write("train.py", PRELUDE + block("python", "should_pause"))
    shell.write("run.yaml", block("yaml", "torchrun"))
    path = f"PATH={Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    pause_and_resume(shell, "run.yaml", "--rehearse", "2x1", "--env", path)
    saved, resumed = places(shell)
    assert len(saved) == 2, "each worker saved before it left"
    assert len(resumed) == 2
    assert set(resumed) <= set(saved)


def pause_and_resume(shell: Shell, *arguments: str) -> None:
    """Follow a run, pause it in the middle, resume it, and see it completed."""
    follower = shell.start("run", *arguments)
    assert follower.stdout is not None
    middle = any("in the middle" in line for line in follower.stdout)
    assert middle, follower.communicate()
    paused = shell.tarmac("pause", "digits", "--wait", code=0).stdout
    assert re.search(r"lost: no work: it goes on from the checkpoint at step \d+", paused), paused
    assert "lost: no work" in shell.tarmac("why", "digits", code=0).stdout
    shell.tarmac("resume", "digits", code=0)
    output, errors = follower.communicate(timeout=120)
    assert follower.returncode == 0, (output, errors)
    attempts = shell.json("show", "digits")["attempts"]
    assert [attempt["outcome"] for attempt in attempts] == ["paused", "completed"]


def places(shell: Shell) -> tuple[list[str], list[str]]:
    """The steps at which workers of the first attempt saved, and at which those of the second started."""
    first, second = (
        "".join(log.read_text() for log in Path(attempt["directory"], "logs").glob("main*.log"))
        for attempt in shell.json("show", "digits")["attempts"]
    )
    return re.findall(r"saved at (\d+)", first), re.findall(r"starts at (\d+)", second)
