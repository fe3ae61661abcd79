"""Sites where an engine of this tarmac has worked before: what it delivers is there, compiled.

To deliver and compile takes more processor time than most tests of an engine; its own tests do it.
"""

from __future__ import annotations

import atexit
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tarmac.engines.hosts import installing
from tarmac.engines.slurm.delivery import COMPILE
from tarmac.node.starting import NODE_DIRECTORY


def deliver_early(home: Path, *packages: Path) -> None:
    """Make the directory of such a site; `packages` are those beside the runner's."""
    home.mkdir(mode=0o700)
    shutil.copytree(_delivered(packages), home / "node")


@cache
def _delivered(packages: tuple[Path, ...]) -> Path:
    """The directory of versions of a site, made once."""
    made = Path(tempfile.mkdtemp(prefix="delivered"))
    atexit.register(shutil.rmtree, made)
    found = installing.collect((NODE_DIRECTORY, *packages))
    version = made / installing.version_of(found)
    for name, content in found.items():
        path = version / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    subprocess.run([sys.executable, *COMPILE, version], check=True)
    return made
