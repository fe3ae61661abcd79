"""The field `launcher` of the native run file (D2)."""

from __future__ import annotations

import pytest

from tarmac.dialects.native.reader import write
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import Launcher
from tarmac.systems.registry import read


def problem(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        read(text, filename="a.yaml", directory="/d")
    return str(caught.value.problems[0])


def test_it_is_read_and_written() -> None:
    spec = read("slots: 2\nlauncher: jax\ncommand: python a.py\n", filename="a.yaml", directory="/d").spec
    assert spec.roles[0].launcher is Launcher.JAX
    assert "launcher: jax" in write(spec)


def test_a_launcher_that_is_not_known_is_refused_with_the_nearest() -> None:
    assert "torch" in problem("slots: 2\nlauncher: torhc\ncommand: python a.py\n")


@pytest.mark.parametrize(
    "command",
    [
        "torchrun train.py",
        "[python3, -m, torch.distributed.run, train.py]",
        "cd src && accelerate launch train.py",
        "/opt/bin/mpirun -np 2 python train.py",
        "python3 -m determined.launch.torch_distributed train.py",
    ],
)
def test_a_command_that_starts_processes_itself_is_refused(command: str) -> None:
    found = problem(f"slots: 2\nlauncher: torch\ncommand: {command}\n")
    assert "would each time start the processes of a whole node" in found


@pytest.mark.parametrize("command", ["python torchrun_like.py", "python train.py --deepspeed ds.json"])
def test_a_command_that_only_resembles_one_is_not(command: str) -> None:
    read(f"slots: 2\nlauncher: torch\ncommand: {command}\n", filename="a.yaml", directory="/d")


def test_it_stands_beside_one_command_of_one_role() -> None:
    assert "launcher" in problem("launcher: torch\nprocesses: [{command: a}, {command: b}]\n")
    both = "roles: {a: {slots: 1, launcher: torch, command: x}, b: {slots: 1, launcher: jax, command: y}}\n"
    assert "roles a and b each have a launcher" in problem(both)
