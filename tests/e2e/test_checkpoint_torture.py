"""Runs that save in many ways are paused, moved and killed at random moments: what was finished is there."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from checkpoint_torture import told, torture

WAYS = (
    "renamed",
    "linked",
    "directory swapped",
    "in place, by step",
    "directories in place",
    "on SIGTERM",
    "appended",
    "in turns",
    "text in place",
    "as the Trainer",
    "as Orbax",
)


@pytest.mark.timeout(240)
def test_no_finished_checkpoint_is_lost_and_no_half_written_one_is_found(tmp_path: Path) -> None:
    """I14, D12: on nodes with disks of their own; a cycle report never says more than what was kept."""
    count = torture(
        tmp_path, events=22, lanes=4, seed=11, ways=WAYS, per_lineage=2, cycles=["in place, by step"]
    )
    assert sum(count.events.values()) == 22
    assert count.ways >= 6
    assert count.clean, told(count)
