"""A real Ray for all tests of this folder that want one, and the engine over it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from ray_clusters import MissingRay, RayNodes, running_ray
from ray_harness import RealRayHarness

# What uses these fixtures is marked as real_engine, and belongs to the group `ray`.


@pytest.fixture(scope="session")
def cluster() -> Iterator[RayNodes]:
    """Three nodes; the test is skipped where there can be none."""
    try:
        with tempfile.TemporaryDirectory(prefix="tr") as short, running_ray(Path(short)) as nodes:
            yield nodes  # the paths of Ray's sockets must be short
    except MissingRay as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def real(cluster: RayNodes, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealRayHarness]:
    """The engine over it, with its three nodes up."""
    made = RealRayHarness(tmp_path_factory.mktemp("engine") / "home", cluster)
    yield made
    made.close()
