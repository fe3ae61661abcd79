"""The server is killed at random moments under a load of short runs: everything accepted happens, once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from torture import torture


@pytest.mark.timeout(240)
def test_nothing_is_lost_or_started_twice_when_the_server_is_killed_under_load(tmp_path: Path) -> None:
    count = torture(tmp_path / "home", runs=200, kills=8, seed=7)
    assert count.accepted == 200
    assert count.kills >= 6
    assert count.clean, count
