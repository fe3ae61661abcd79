"""A server of root with two members, and a real Slurm for them. Used by the tests of system users there."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slurm_clusters import running_slurm
from system_users import Lab, lab

LINES = "MinJobAge=2\n"


@contextmanager
def slurm_lab() -> Iterator[tuple[Lab, Path]]:
    """The lab, whose cluster `site` is a Slurm of two nodes; and a directory that every user may enter.

    Raises slurm_clusters.Missing.
    """
    before = os.environ.get("SLURM_CONF")
    with tempfile.TemporaryDirectory(prefix="lab") as name:
        place = Path(name)
        place.chmod(0o755)
        try:
            with running_slurm(place / "slurm", cpus_per_node=4, lines=LINES) as variables:
                os.environ |= variables
                (root := place / "root").mkdir()
                with lab(root) as made:
                    settings = (f"--set=directory={root}/shared", "--set=partition=batch")
                    made.admin.tarmac("clusters", "add", "site", "--engine=slurm", *settings, code=0)
                    yield made, place
        finally:
            os.environ.pop("SLURM_CONF", None)
            os.environ |= {"SLURM_CONF": before} if before is not None else {}
