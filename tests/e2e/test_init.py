"""What `tarmac init` writes runs unchanged, is paused once and goes on to its end, for each framework.

Those that are not in the development environment are tried where they are installed: `make frameworks`.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
from pathlib import Path

import pytest

from shell import Shell

LIMIT_S = 240.0

NEEDS = {
    "plain": (),
    "torchrun": ("torch",),
    "huggingface": ("torch", "transformers", "accelerate"),
    "lightning": ("torch", "lightning"),
    "jax": ("jax",),
}

TORCHRUN = '#!/bin/sh\nexec {python} -m torch.distributed.run "$@"\n'

pytestmark = [pytest.mark.timeout(2 * LIMIT_S), pytest.mark.torch]


@pytest.mark.parametrize("framework", NEEDS)
def test_the_training_of_init_is_paused_and_goes_on_to_its_end(framework: str, shell: Shell) -> None:
    """Nothing in the files is changed; only the Python that runs the tests comes first in PATH."""
    if missing := [name for name in NEEDS[framework] if importlib.util.find_spec(name) is None]:
        pytest.skip(f"not installed: {', '.join(missing)}")
    shell.tarmac("init", "--framework", framework, "mine", code=0)
    variables = {"PATH": f"{programs(shell.directory / 'bin')}{os.pathsep}{os.environ['PATH']}"}

    follower = shell.start("run", "mine/run.yaml", variables=variables)
    assert follower.stdout is not None
    assert any(re.match(r"starting .*step 0\b", line) for line in follower.stdout)
    shell.until("metrics", "mine", said="loss")
    shell.tarmac("pause", "mine", "--wait", code=0)
    paused = shell.json("show", "mine")
    shell.tarmac("resume", "mine", code=0)
    rest, errors = follower.communicate(timeout=LIMIT_S)

    assert follower.returncode == 0, errors
    assert [paused["run"]["state"], paused["attempts"][0]["outcome"]] == ["paused", "paused"], errors
    saved = re.search(r"^paused after step (\d+)$", rest, re.MULTILINE)
    assert saved, rest + errors
    assert re.search(rf"^starting (after step {saved[1]}\b|from step-{saved[1]}$)", rest, re.MULTILINE), rest
    (finished,) = re.findall(r"^finished after step (\d+)", rest, re.MULTILINE)
    assert int(finished) > int(saved[1]) > 0
    assert [attempt["outcome"] for attempt in shell.json("show", "mine")["attempts"]] == [
        "paused",
        "completed",
    ]


def programs(directory: Path) -> Path:
    """A directory with `python3` and `torchrun` of the Python that runs the tests."""
    directory.mkdir()
    (directory / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (directory / "torchrun").write_text(TORCHRUN.format(python=sys.executable))
    for program in directory.iterdir():
        program.chmod(0o755)
    return directory
