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
    if not any(FRAMEWORKS.parent.glob(f"lib/python*/site-packages/{module}")):
        why = (
            "the last one does not build against the torch of today"
            if module == "horovod"
            else "make launchers"
        )
        pytest.skip(f"{module} is not installed: {why}")
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


MEETING = """\
import json, os, socket, time, urllib.error, urllib.request
rank, size = os.environ["HOROVOD_RANK"], int(os.environ["HOROVOD_SIZE"])
address, port = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"]
def ask(method, key, body=None, scope="global_"):
    request = urllib.request.Request(f"http://{address}:{port}/{scope}/{key}", data=body, method=method)
    while True:
        try:
            return urllib.request.urlopen(request).read()
        except urllib.error.HTTPError:
            return None
        except OSError:  # rank 0 has not begun
            time.sleep(0.1)
listener = socket.create_server((os.environ["HOROVOD_GLOO_IFACE"] == "lo" and "127.0.0.1" or "", 0))
ask("PUT", rank, str(listener.getsockname()[1]).encode())
total = int(rank)
for other in range(size):
    while other != int(rank) and (place := ask("GET", other)) is None:
        time.sleep(0.01)
    if other > int(rank):
        with socket.create_connection(("127.0.0.1", int(place))) as peer:
            peer.sendall(rank.encode())
            total += int(peer.recv(10))
    elif other < int(rank):
        peer, _ = listener.accept()
        with peer:
            total += int(peer.recv(10))
            peer.sendall(rank.encode())
ask("DELETE", rank)
ask("PUT", rank, b"over", scope="end")
while rank == "0" and any(ask("GET", other, scope="end") is None for other in range(size)):
    time.sleep(0.01)
print(f"rank {rank} of {size}: the sum of all ranks is {total}")
"""


def test_processes_meet_as_those_of_horovod_do(shell: Shell) -> None:
    """Where Horovod cannot be built: each process finds all others by its variables and talks to each."""
    shell.write("train.py", MEETING)
    shell.write(
        "run.yaml", "name: meeting\nslots: 4\nlauncher: horovod\ncode: .\ncommand: python3 train.py\n"
    )
    result = tarmac(shell, "plain", "run", "run.yaml", "--rehearse", "2x2")
    assert result.returncode == 0, result.stderr
    for rank in range(4):
        assert f"rank {rank} of 4: the sum of all ranks is 6" in result.stdout
