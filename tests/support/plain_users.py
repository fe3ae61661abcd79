"""Somebody without rights: root becomes that user, anybody else is one. Used by the tests of a real Slurm."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import tarmac
from guides import Reader
from slurm_clusters import running_slurm

USER = "nobody"


class NotPossible(Exception):
    """Nobody without rights can run tarmac here."""


@dataclass(frozen=True, slots=True)
class Site:
    """A user at a Slurm, whose files are in `slurm`."""

    reader: Reader
    slurm: Path


@contextmanager
def user_of_slurm(*, nodes: int, cpus_per_node: int, lines: str) -> Iterator[Site]:
    """A user without rights at a Slurm of their own. Raises NotPossible, slurm_clusters.Missing."""
    with tempfile.TemporaryDirectory(prefix="user") as name:
        place = Path(name)
        place.chmod(0o755)
        home = place / "home"
        home.mkdir()
        as_user = as_somebody(USER, home) if os.geteuid() == 0 else ()
        install_tarmac(place / "bin", as_user)
        slurm = place / "slurm"
        with running_slurm(slurm, nodes=nodes, cpus_per_node=cpus_per_node, lines=lines) as variables:
            path = f"{place}/bin:/usr/bin:/bin:/usr/sbin:/sbin"
            environment = {"HOME": str(home), "PATH": path, "COLUMNS": "160", **variables}
            reader = Reader(home, environment, as_user)
            try:
                yield Site(reader, slurm)
            finally:
                reader.run("tarmac server stop")


def as_somebody(user: str, home: Path) -> tuple[str, ...]:
    """What becomes a user without rights, whose home this is, before a command."""
    account, setpriv = pwd.getpwnam(user), shutil.which("setpriv")
    if setpriv is None:
        raise NotPossible("needs setpriv to become somebody else")
    os.chown(home, account.pw_uid, account.pw_gid)
    return setpriv, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"


def install_tarmac(directory: Path, as_user: tuple[str, ...]) -> None:
    """`tarmac` and `python`, by the tester's interpreter or by the system's, whichever the user may run."""
    directory.mkdir()
    packages = [
        str(Path(tarmac.__file__).parents[1]),
        *(path for path in sys.path if "site-packages" in path),
    ]
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        for name, module in (("tarmac", " -m tarmac.cli"), ("python", "")):
            program = directory / name
            program.write_text(f'#!/bin/sh\nPYTHONPATH={":".join(packages)} exec {python}{module} "$@"\n')
            program.chmod(0o755)
        tried = ["sh", "-c", f"{directory}/tarmac --help && {python} -c 'import ssl, sqlite3'"]
        if subprocess.run([*as_user, *tried], cwd="/", check=False, capture_output=True).returncode == 0:
            return
    raise NotPossible("tarmac is installed where only root can read it")
