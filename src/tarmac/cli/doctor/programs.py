"""Checks programs and packages that some runs or clusters need. Called by `tarmac doctor`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

from tarmac.cli.doctor.finding import Finding, missing, ok, warn

SLURM = ("sbatch", "squeue", "scancel", "scontrol", "sacct")
"""Programs that the Slurm engine calls; without the last, it judges ended jobs by their directory alone."""

_LIMIT_S = 10.0


def program_findings(*, ray_elsewhere: bool = False) -> Iterator[Finding]:
    """All findings. `ray_elsewhere`: every Ray cluster names a Python of its own."""
    yield _program(
        "ssh", "-V", without="Clusters over SSH and private repositories need it: install an OpenSSH client."
    )
    yield _program("git", "--version", without="Code and setup steps from repositories need it: install git.")
    yield slurm({name for name in SLURM if shutil.which(name)})
    yield ray(_installed("ray"), elsewhere=ray_elsewhere)


def slurm(found: set[str]) -> Finding:
    """The commands of a Slurm on this machine."""
    if not found:
        meaning = (
            "A Slurm is reached from a machine with its commands, or over SSH: "
            "tarmac clusters add NAME --engine slurm --set ssh=USER@LOGIN."
        )
        return missing("slurm", "no sbatch in PATH", meaning)
    absent = [name for name in SLURM if name not in found]
    if absent:
        meaning = (
            "A cluster with engine: slurm on this machine needs them: install the rest of Slurm's client."
        )
        return warn("slurm", f"no {', '.join(absent)} in PATH", meaning)
    works, text = _version("sbatch", "--version")
    if not works:
        meaning = "Its commands are here and do not work: a slurm.conf that they find is needed (SLURM_CONF)."
        return warn("slurm", text, meaning)
    return ok("slurm", text)


def ray(version: str | None, *, elsewhere: bool) -> Finding:
    """The package Ray in this Python; `elsewhere`: no cluster needs it here."""
    if version is not None:
        return ok("ray", version)
    if elsewhere:
        return ok("ray", "in the Python that each cluster of Ray names")
    meaning = (
        "Clusters of Ray need it in the server's Python (pip install ray), or name one that has it: "
        "tarmac clusters add NAME --engine ray --set python=PATH."
    )
    return missing("ray", f"not installed in {sys.executable}", meaning)


def _program(name: str, option: str, *, without: str) -> Finding:
    if shutil.which(name) is None:
        return missing(name, f"no {name} in PATH", without)
    works, text = _version(name, option)
    return ok(name, text) if works else warn(name, text, f"{name} {option} should say its version.")


def _version(name: str, option: str) -> tuple[bool, str]:
    """Whether a program reports its version, with the first line of that, else with its path."""
    try:
        output = subprocess.run(
            [name, option],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_LIMIT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    lines = (output.stdout or output.stderr).strip().splitlines()
    return output.returncode == 0, lines[0].strip() if lines else str(shutil.which(name))


def _installed(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
