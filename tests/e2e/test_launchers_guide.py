"""docs/using/guides/launchers.md, typed: real trainings on two nodes of two slots (D2, D5; `make launchers`).

Sections whose framework is not there are skipped; `make launchers` makes an environment that has them all.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from shell import Shell, command

ROOT = Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/using/guides/launchers.md").read_text(encoding="utf-8")
FRAMEWORKS = ROOT / ".venv-launchers/bin"
TRAINING_S = 400.0

NEEDS = {name: name for name in ("torch", "accelerate", "deepspeed", "jax", "horovod")} | {"mpi": "mpi4py"}
SECTIONS = ["torch", "failing", "accelerate", "deepspeed", "jax", "horovod", "mpi", "mpirun", "plain"]

pytestmark = [pytest.mark.timeout(2 * TRAINING_S), pytest.mark.torch]


def programs(section: str) -> Path:
    """The directory of a Python that has what the section imports; skips the test where there is none."""
    if section in ("mpi", "mpirun") and shutil.which("mpirun") is None:
        pytest.skip("Open MPI is not installed")
    module = NEEDS.get(section)
    if module is None or importlib.util.find_spec(module) is not None:
        return Path(sys.executable).parent
    if not (FRAMEWORKS / "python").exists():
        pytest.skip(f"{module} is not installed: make launchers")
    return FRAMEWORKS


def files(section: str) -> dict[str, str]:
    blocks = re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", GUIDE, re.DOTALL)
    return {name: text for name, text in blocks if name.startswith(f"{section}/")}


def typed(section: str) -> list[tuple[list[str], list[str]]]:
    """Each command of the section that is about its files, and the lines that it shows."""
    name = re.search(r"^name: (\S+)", files(section)[f"{section}/run.yaml"], re.MULTILINE)
    assert name is not None
    found = []
    for block in re.findall(r"^```\n(\$ .*?)^```", GUIDE, re.MULTILINE | re.DOTALL):
        for part in re.split(r"^\$ tarmac ", block, flags=re.MULTILINE)[1:]:
            line, *shown = part.strip().splitlines()
            if f"{section}/" in line or f" {name[1]} " in line:
                found.append((line.split(), shown))
    assert found
    return found


@pytest.mark.parametrize("section", SECTIONS)
def test_what_the_guide_shows_happens(shell: Shell, section: str) -> None:
    for name, text in files(section).items():
        shell.write(name, text)
    for arguments, shown in typed(section):
        result = tarmac(shell, section, *arguments)
        everything = result.stdout + result.stderr
        assert result.returncode == (7 if section in ("failing", "mpirun") else 0), everything
        for line in shown:
            assert line in everything, everything


def tarmac(shell: Shell, section: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command by a person whose `python` has what the section imports."""
    return subprocess.run(
        command(*arguments),
        cwd=shell.directory,
        env=shell.environment(
            PATH=f"{programs(section)}{os.pathsep}{os.environ['PATH']}", JAX_PLATFORMS="cpu"
        ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=TRAINING_S,
    )


def test_a_world_of_the_wrong_size_is_noticed(shell: Shell) -> None:
    """Two processes that each train alone, as `accelerate launch` makes them without an address."""
    shell.write(
        "alone.py",
        "import os, torch.distributed as dist, tarmac\n"
        "store = dist.HashStore()\n"
        "dist.init_process_group('gloo', store=store, rank=0, world_size=1)\n"
        "tarmac.report(step=1, loss=0.5)\n"
        "dist.destroy_process_group()\n",
    )
    shell.write(
        "run.yaml", "name: alone\nslots: 2\nlauncher: accelerate\ncode: .\ncommand: python alone.py\n"
    )
    result = tarmac(shell, "torch", "run", "run.yaml", "--rehearse", "2x1")
    assert result.returncode == 0, result.stderr
    assert "a process trains in a world of 1, and the run has 2 processes" in result.stderr
