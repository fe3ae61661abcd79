"""docs/using/slurm.md does what it says: its files are written, its commands typed, not by root."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import tarmac
from guides import matches, typed
from slurm_clusters import Missing, running_slurm

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("slurm-guide"), pytest.mark.timeout(600)]

GUIDE = Path(__file__).resolve().parents[2] / "docs/using/slurm.md"
LIMIT_S = 240.0
USER = "nobody"
SITE_PACKAGES = re.compile("site-packages")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody at a login node, with a home and a shell."""

    home: Path
    as_user: tuple[str, ...]
    environment: dict[str, str]

    def type_line(self, line: str) -> str:
        """What a command prints, which must succeed."""
        done = subprocess.run(
            [*self.as_user, "bash", "-c", line],
            cwd=self.home,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"$ {line}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def person() -> Iterator[Person]:
    """A user without rights, where root can become one, at a Slurm of two nodes with four processors each."""
    with tempfile.TemporaryDirectory(prefix="guide") as name:
        place = Path(name)
        place.chmod(0o755)
        home = place / "home"
        home.mkdir()
        as_user = nobody(home) if os.geteuid() == 0 else ()
        install(place / "bin", as_user)
        try:
            with running_slurm(place / "slurm", cpus_per_node=4, lines=LINES) as variables:
                path = f"{place}/bin:/usr/bin:/bin:/usr/sbin:/sbin"
                environment = {"HOME": str(home), "PATH": path, "COLUMNS": "160", **variables}
                user = Person(home, as_user, environment)
                try:
                    yield user
                finally:
                    user.type_line("tarmac server stop || true")
        except Missing as missing:
            pytest.skip(str(missing))


def nobody(home: Path) -> tuple[str, ...]:
    """What becomes a user without rights, whose home this is, before a command."""
    account, setpriv = pwd.getpwnam(USER), shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("needs setpriv to become somebody else")
    os.chown(home, account.pw_uid, account.pw_gid)
    return setpriv, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups"


def install(directory: Path, as_user: tuple[str, ...]) -> None:
    """The command `tarmac`, by the tester's interpreter or by the system's, whichever the user may run."""
    directory.mkdir()
    program = directory / "tarmac"
    packages = [
        str(Path(tarmac.__file__).parents[1]),
        *(path for path in sys.path if "site-packages" in path),
    ]
    for python in (sys.executable, f"/usr/bin/python3.{sys.version_info.minor}"):
        program.write_text(f'#!/bin/sh\nPYTHONPATH={":".join(packages)} exec {python} -m tarmac.cli "$@"\n')
        program.chmod(0o755)
        tried = ["sh", "-c", f"{program} --help && {python} -c 'import ssl, sqlite3'"]
        if subprocess.run([*as_user, *tried], cwd="/", check=False, capture_output=True).returncode == 0:
            return
    pytest.skip("tarmac is installed where only root can read it")


READS = ("tarmac why", "tarmac ls", "tarmac show")
"""Commands that a reader repeats until they say what is awaited: Slurm is asked every few seconds."""

LINES = "PartitionName=short Nodes=ALL MaxTime=1 State=UP"
"""The time of a job is short, as the guide says."""


def test_the_guide_does_what_it_says(person: Person) -> None:
    for language, text in re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE):
        if language == "console":
            for line, expected in typed(text):
                deadline = time.monotonic() + LIMIT_S
                while not matches(expected, printed := person.type_line(line)):
                    late = not line.startswith(READS) or time.monotonic() > deadline
                    assert not late, f"$ {line}\n{printed}\n--- and not:\n{expected}"
        else:
            first, _, _ = text.partition("\n")
            (person.home / first.removeprefix("# ")).write_text(text)
