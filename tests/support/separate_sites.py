"""A Slurm at a site that shares nothing with its user's machine: two accounts without rights, and an sshd.

The user is `nobody` with a home of their own; at the site they are `daemon`, who cannot read that home, and
whose directory the user cannot read. Used by the tests of a real Slurm; made by root alone.
"""

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

from gitserver import ssh_server
from guides import Reader
from plain_users import USER, NotPossible, as_somebody, install_tarmac
from slurm_clusters import running_slurm

ACCOUNT = "daemon"
"""At the site."""


@dataclass(frozen=True, slots=True)
class SeparateSite:
    """The user's machine, the Slurm, and the user's directory at the site.

    `target` is where ssh goes, `path` what finds a `python` with PyTorch there.
    """

    reader: Reader
    slurm: Path
    directory: Path
    target: str
    path: str


@contextmanager
def separate_site(*, nodes: int, cpus_per_node: int, lines: str = "") -> Iterator[SeparateSite]:
    """One with a Slurm of its own. Raises NotPossible, slurm_clusters.Missing."""
    if os.geteuid() != 0:
        raise NotPossible("needs root to be two people")
    with tempfile.TemporaryDirectory(prefix="apart") as name:
        place = Path(name)
        place.chmod(0o755)
        home, directory = _owned(place / "home", USER), _owned(place / "site", ACCOUNT)
        as_user = as_somebody(USER, home)
        install_tarmac(place / "bin", as_user)
        _install_python(place / "site-bin", as_somebody(ACCOUNT, directory))
        with (
            running_slurm(
                place / "slurm", nodes=nodes, cpus_per_node=cpus_per_node, lines=lines
            ) as variables,
            ssh_server(
                place / "sshd", before=_account_with_shell(place / "passwd", directory), variables=variables
            ) as server,
        ):
            if server is None:
                raise NotPossible("there is no sshd here")
            (place / "sshd").chmod(0o755)  # who logs in reads which keys may
            _install_ssh(place / "bin/ssh", home, server.port, server.key)
            environment = {
                "HOME": str(home),
                "TARMAC_HOME": str(home / "tarmac"),
                "PATH": f"{place}/bin:/usr/bin:/bin",
                "COLUMNS": "160",
            }
            reader = Reader(home, environment, as_user)
            try:
                yield SeparateSite(
                    reader=reader,
                    slurm=place / "slurm",
                    directory=directory,
                    target="login",
                    path=f"{place}/site-bin:/usr/bin:/bin",
                )
            finally:
                reader.run("tarmac server stop")


def _owned(directory: Path, user: str) -> Path:
    """A directory that its user alone may read."""
    account = pwd.getpwnam(user)
    directory.mkdir(mode=0o700)
    os.chown(directory, account.pw_uid, account.pw_gid)
    return directory


def _account_with_shell(passwd: Path, home: Path) -> tuple[str, ...]:
    """What starts an sshd for which the account at the site has a shell, and this home."""
    lines = Path("/etc/passwd").read_text().splitlines()
    account = pwd.getpwnam(ACCOUNT)
    entry = f"{ACCOUNT}:x:{account.pw_uid}:{account.pw_gid}:{ACCOUNT}:{home}:/bin/bash"
    others = [line for line in lines if not line.startswith(f"{ACCOUNT}:")]
    passwd.write_text("\n".join([*others, entry]) + "\n")
    mount = f'mount --bind "{passwd}" /etc/passwd && exec "$@"'
    started = ("unshare", "--mount", "sh", "-c", mount, "with-shell")
    if subprocess.run([*started, "true"], capture_output=True, check=False).returncode != 0:
        raise NotPossible("no mount namespace can be made here")
    return started


def _install_python(directory: Path, as_account: tuple[str, ...]) -> None:
    """A `python` with the packages of the tests at the site, where tarmac is not installed."""
    directory.mkdir()
    program = directory / "python"
    packages = ":".join(path for path in sys.path if "site-packages" in path)
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        program.write_text(f'#!/bin/sh\nPYTHONPATH="{packages}:$PYTHONPATH" exec {python} "$@"\n')
        program.chmod(0o755)
        tried = [*as_account, program, "-c", "import torch"]
        if subprocess.run(tried, cwd="/", check=False, capture_output=True).returncode == 0:
            return
    raise NotPossible("PyTorch is installed where only root can read it")


def _install_ssh(program: Path, home: Path, port: int, key: Path) -> None:
    """The user's `ssh`, which knows the site as `login`."""
    account = pwd.getpwnam(USER)
    (home / "key").write_bytes(key.read_bytes())
    (home / "config").write_text(
        f"Host login\nHostName 127.0.0.1\nPort {port}\nUser {ACCOUNT}\nIdentityFile {home}/key\n"
        f"IdentitiesOnly yes\nUserKnownHostsFile {home}/known\nStrictHostKeyChecking accept-new\n"
    )
    for name in ("key", "config"):
        (home / name).chmod(0o600)
        os.chown(home / name, account.pw_uid, account.pw_gid)
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {home}/config "$@"\n')
    program.chmod(0o755)
