"""A UNICORE for all tests of this folder: without a batch system, and over a real Slurm."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurm_clusters import Missing, running_slurm
from tarmac.engines.unicore.client import Unicore
from unicore_server import Served
from unicore_sites import login, serving

# What starts a Slurm is marked as real_engine, and belongs to the group `unicore`.


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Served]:
    with serving(tmp_path) as made:
        yield made


@pytest.fixture
def ada(site: Served) -> Unicore:
    return login(site)


@pytest.fixture(scope="session")
def slurm() -> Iterator[dict[str, str]]:
    """What the user of a real Slurm needs, whoever that is; the test is skipped where there is none."""
    try:
        with tempfile.TemporaryDirectory(prefix="tu") as directory:
            Path(directory).chmod(0o755)
            with running_slurm(Path(directory) / "slurm", cpus_per_node=4) as variables:
                yield variables
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def batch(tmp_path: Path, slurm: dict[str, str]) -> Iterator[Served]:
    """A site over a Slurm."""
    with serving(tmp_path, **slurm) as made:
        yield made
