"""A node of a real Ray is cut off under its run: two attempts write, and only the successor's count."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from ray_clusters import RayNodes
from ray_split import split

LEASE_S = 1800

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("ray"), pytest.mark.timeout(900)]


def test_the_cut_one_goes_on_until_its_lease_ends_and_nothing_of_it_counts(cluster: RayNodes) -> None:
    with tempfile.TemporaryDirectory(prefix="ts") as home:
        found = split(Path(home), cluster, lease_s=LEASE_S, aged=True)
    assert found.causes[0] == "node_lost"
    assert found.cut_one_ended_at > found.successor_at, "both wrote at the same time"
    assert '"lease_expired"' in found.cut_events
    assert {(made, named) for made, named, _ in found.versions} == {(1, 1), (2, 2)}
    assert all(at < found.successor_at for made, _, at in found.versions if made == 1)
    last_of_first = max(number for number, (made, _, _) in enumerate(found.versions) if made == 1)
    assert all(made == 2 for made, _, _ in found.versions[last_of_first + 1 :])
