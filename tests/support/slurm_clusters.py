"""A Slurm for tests: stand-ins for its commands, or a real one of two nodes where it is installed.

Used by the contract suite of engines and the end-to-end tests.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

CLUSTER = Path(__file__).parents[2] / "benchmarks/slurm_cluster.sh"
STANDIN = Path(__file__).with_name("slurm_standin.py")
PROGRAMS = ("sbatch", "srun", "slurmctld", "slurmd", "munged")
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "sacct", "scontrol")


class Missing(Exception):
    """There is no Slurm on this machine."""


@contextmanager
def running_slurm(directory: Path, *, cpus_per_node: int | None = None) -> Iterator[dict[str, str]]:
    """What the user of a real Slurm of two nodes needs; raises Missing where none is installed."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        raise Missing(f"Slurm is not installed: {', '.join(missing)}")
    env = {**os.environ, "SLURM_CLUSTER_PORT": str(_three_free_ports())}
    if cpus_per_node is not None:
        env["SLURM_CLUSTER_CPUS"] = str(cpus_per_node)
    try:
        subprocess.run(["bash", str(CLUSTER), "up", str(directory), "tuned"], check=True, timeout=60, env=env)
        yield {"SLURM_CONF": str(directory / "etc/slurm.conf")}
    finally:
        subprocess.run(["bash", str(CLUSTER), "down", str(directory)], check=True, timeout=60)


def install_standin(directory: Path) -> dict[str, str]:
    """Put stand-ins for the commands into a directory; the variables that make programs find them."""
    programs = directory / "bin"
    for path in (programs, directory / "jobs", directory / "forgotten"):
        path.mkdir(parents=True)
    for name in COMMANDS:
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S {STANDIN} {name} "$@"\n')
        program.chmod(0o755)
    return {"STANDIN": str(directory), "PATH": f"{programs}:{os.environ['PATH']}"}


def _three_free_ports() -> int:
    """The first of three in a row that nobody listens on, below the range of outgoing connections."""
    for first in range(20_000 + os.getpid() % 3_000 * 3, 32_000, 3):
        with ExitStack() as stack:
            try:
                for port in range(first, first + 3):
                    stack.enter_context(socket.socket()).bind(("", port))
            except OSError:
                continue
            return first
    raise AssertionError("no three free ports in a row")
