"""A Slurm for tests: stand-ins for its commands, or a real one of two nodes where it is installed.

Used by the contract suite of engines and the end-to-end tests.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

CLUSTER = Path(__file__).parents[2] / "benchmarks/slurm_cluster.sh"
STANDIN = Path(__file__).with_name("slurm_standin.py")
PROGRAMS = ("sbatch", "srun", "slurmctld", "slurmd", "munged")
ACCOUNTING = ("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db")
COMMANDS = ("sbatch", "srun", "squeue", "scancel", "sacct", "scontrol")


class Missing(Exception):
    """There is no Slurm on this machine."""


def can_hold_memory() -> bool:
    """Whether Slurm can hold jobs to their memory here: it needs control groups of version 1, and root."""
    return os.geteuid() == 0 and os.access("/sys/fs/cgroup/memory/cgroup.procs", os.W_OK)


@contextmanager
def running_slurm(
    directory: Path,
    *,
    nodes: int = 2,
    cpus_per_node: int | None = None,
    lines: str = "",
    accounting: bool = False,
    gpus: str = "",
    memory: bool = False,
    memory_mib: int = 1000,
) -> Iterator[dict[str, str]]:
    """What the user of a real Slurm needs; raises Missing where none is installed.

    `lines` are added to its configuration, which has one partition, `batch`. `accounting`: slurmdbd keeps
    accounts, of which the user has `proj`, and their limits hold. Each node has `gpus`, such as
    "a100:2,v100:1", and shows `memory_mib`. `memory`: jobs are held to it, 64 MiB for a processor (see
    `can_hold_memory`).
    """
    programs = PROGRAMS + (ACCOUNTING if accounting else ())
    missing = [name for name in programs if shutil.which(name) is None]
    if missing:
        raise Missing(f"Slurm is not installed: {', '.join(missing)}")
    env = {**os.environ, "SLURM_CLUSTER_PORT": str(_free_ports(nodes + 3)), "SLURM_CLUSTER_LINES": lines}
    env["SLURM_CLUSTER_NODES"] = str(nodes)
    env["SLURM_CLUSTER_MEMORY"] = str(memory_mib)
    env["SLURM_CLUSTER_GPUS"] = gpus
    env["SLURM_CLUSTER_ACCOUNTING"] = "1" if accounting else ""
    env["SLURM_CLUSTER_CGROUPS"] = "1" if memory else ""
    if cpus_per_node is not None:
        env["SLURM_CLUSTER_CPUS"] = str(cpus_per_node)
    directory.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="slurm") as short:
        Path(short).chmod(0o755)  # whoever runs here need not be who tests
        link = Path(short) / "c"  # the paths of Slurm's sockets must be short
        link.symlink_to(directory)
        try:
            subprocess.run(["bash", str(CLUSTER), "up", str(link), "tuned"], check=True, timeout=180, env=env)
            yield {"SLURM_CONF": str(directory / "etc/slurm.conf")}
        finally:
            subprocess.run(["bash", str(CLUSTER), "down", str(link)], check=True, timeout=180)


def install_standin(directory: Path) -> dict[str, str]:
    """Put stand-ins for the commands into a directory; the variables that make programs find them."""
    programs = directory / "bin"
    for path in (programs, directory / "jobs", directory / "forgotten"):
        path.mkdir(parents=True)
    for name in COMMANDS:
        program = programs / name
        program.write_text(
            f"#!{sys.executable} -IS\nimport sys\nsys.path.insert(0, {str(STANDIN.parent)!r})\n"
            f"from slurm_standin import main\nmain({name!r}, sys.argv[1:])\n"
        )
        program.chmod(0o755)
    return {"STANDIN": str(directory), "PATH": f"{programs}:{os.environ['PATH']}"}


def _free_ports(count: int) -> int:
    """The first of so many in a row that nobody listens on, below the range of outgoing connections."""
    for first in range(20_000 + os.getpid() % 2_000 * 5, 32_000, count):
        with ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.socket()).bind(("", port))
            except OSError:
                continue
            return first
    raise AssertionError(f"no {count} free ports in a row")
