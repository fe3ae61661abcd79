"""Sites for configurations of Mantik: one Slurm of two nodes behind its commands, firecREST and UNICORE.

Used by the end-to-end tests of Mantik's dialect.
"""

from __future__ import annotations

import getpass
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import unicore_sites
from firecrest_calls import SYSTEM
from firecrest_far_side import FarSide
from firecrest_server import Client, Firecrest, serving
from shell import Shell
from slurm_clusters import running_slurm

DOCUMENTED = '"UnicoreApiUrl": "https://zam2125.zam.kfa-juelich.de:9112/JUWELS/rest/core"'
"""The address of a site in the document's examples, in a form for both YAML and JSON."""

ADDRESS = re.compile(
    r'"?UnicoreApiUrl"?: "?[^\s",]+"?|Firecrest:\n  ApiUrl: .*\n  TokenUrl: .*\n  Machine: .*'
)
LOGINS = {
    "MANTIK_UNICORE_USERNAME": "ada",
    "MANTIK_UNICORE_PASSWORD": "pass of ada",
    "MANTIK_FIRECREST_CLIENT_ID": "client of ada",
    "MANTIK_FIRECREST_CLIENT_SECRET": "secret of ada",
}
APPTAINER = """#!/bin/bash
words="$*"
while [[ $1 != *.sif ]]; do shift; done
size=$(stat -c %s "$1" 2> /dev/null || echo 0)
echo "apptainer $words on $SLURMD_NODENAME in task $SLURM_PROCID, $size bytes" >&2
shift
exec "$@"
"""
"""Prints how it was called, and runs what follows the image, as Apptainer would inside of it."""

PROFILE = """export PATH="{programs}:$PATH" GLOO_SOCKET_IFNAME=lo SCRATCH="$HOME/scratch"
module() {{ shift; export LOADED="${{LOADED:+$LOADED }}$*"; }}
export -f module
"""


def scontrol(variables: dict[str, str], *arguments: str) -> None:
    """What an administrator does."""
    subprocess.run(["scontrol", *arguments], env={**os.environ, **variables}, check=True, timeout=60)


def make_home(home: Path) -> Path:
    """Make the home of a user at the site, whose login shells find Apptainer, modules and Python."""
    (home / "bin").mkdir()
    (home / "bin/apptainer").write_text(APPTAINER)
    (home / "bin/apptainer").chmod(0o755)
    programs = f"{home}/bin:{Path(sys.executable).parent}"
    (home / ".bash_profile").write_text(PROFILE.format(programs=programs))
    return home


@contextmanager
def mantik_slurm(directory: Path, home: Path, *, cpus_per_node: int = 4) -> Iterator[dict[str, str]]:
    """A Slurm of two nodes with GPUs and accounts, in whose jobs the home is that of the user.

    Raises slurm_clusters.Missing.
    """
    with running_slurm(
        directory,
        cpus_per_node=cpus_per_node,
        gpus="a100:2",
        accounting=True,
        memory_mib=16_000,
    ) as variables:
        features = ("availablefeatures=fast,gpu", "activefeatures=fast,gpu")
        scontrol(variables, "update", "nodename=n1,n2", *features)
        yield {**variables, "HOME": str(home)}


@dataclass(frozen=True)
class Place:
    """A cluster of a user: its directory, the options of a run for it, and its address in a configuration."""

    directory: Path
    options: tuple[str, ...] = ()
    address: str = DOCUMENTED

    @property
    def has_login_node(self) -> bool:
        return "Firecrest" not in self.address

    def config(self, text: str) -> str:
        """A configuration for the place: nothing but the address is different."""
        found, count = ADDRESS.subn(lambda _: self.address, text)
        assert count == 1, text
        return found


Made = Callable[[Shell, dict[str, str], Path, ExitStack], Place]
COMMON = ("--set=partition=batch", "--set=account=proj", f"--set=python={sys.executable}")
OF_A_SITE = (*COMMON, "--set=gpus_per_node=2", "--set=poll=1s")


def of_slurm(shell: Shell, _slurm: dict[str, str], directory: Path, _closing: ExitStack) -> Place:
    """On the machine of the server: a file goes there only if the user says so."""
    shell.tarmac("clusters", "add", "site", "--engine=slurm", f"--set=directory={directory}", *COMMON, code=0)
    return Place(directory, ("--cluster", "site"))


def of_firecrest(shell: Shell, slurm: dict[str, str], directory: Path, closing: ExitStack) -> Place:
    """Behind a firecREST, with the login in Mantik's variables."""
    directory.mkdir()
    client = Client("secret of ada", FarSide("root", (), slurm))
    server = closing.enter_context(serving(Firecrest({"client of ada": client}, (str(directory),))))
    named = {"ApiUrl": f"{server.url}/", "TokenUrl": server.token_url, "Machine": SYSTEM}
    where = (f"--url={server.url}", f"--token-url={server.token_url}", f"--system={SYSTEM}")
    more = (*where, f"--set=directory={directory}/{{user}}")
    shell.tarmac("clusters", "add", "site", "--engine=firecrest", *more, *OF_A_SITE, code=0)
    return Place(directory / getpass.getuser(), address=f'"Firecrest": {json.dumps(named)}')


def of_unicore(shell: Shell, slurm: dict[str, str], directory: Path, closing: ExitStack) -> Place:
    """Behind a UNICORE, with the login in Mantik's variables."""
    served = closing.enter_context(unicore_sites.serving(directory, **slurm))
    place = directory / "ada/tarmac"
    more = (f"--url={served.url}", f"--set=ca={served.ca}", f"--set=directory={place}")
    shell.tarmac("clusters", "add", "site", "--engine=unicore", *more, *OF_A_SITE, code=0)
    return Place(place, address=f'"UnicoreApiUrl": "{served.url}"')


SITES: dict[str, Made] = {"firecrest": of_firecrest, "unicore": of_unicore}
PLACES: dict[str, Made] = {"slurm": of_slurm, **SITES}


def of_workers(output: str) -> str:
    """The lines of a log without the names of workers."""
    return "\n".join(line.partition("| ")[2] or line for line in output.splitlines())
