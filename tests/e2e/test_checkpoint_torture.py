"""Runs that save in many ways are ended in many ways, at chosen moments: what was finished is there.

A part of what `tools/checkpoint_torture.py` plays by hand.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "checkpoint_torture.py"
LIMIT_S = 600
ENDS = "pause,move,stop,worker,disk"
PLAIN = ("renamed", "linked", "directory swapped", "in place, by step", "on SIGTERM", "appended", "in turns")


def play(*arguments: str) -> str:
    """The table of a torture that found nothing wrong."""
    command = [sys.executable, str(TOOL), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S - 20)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.timeout(240)
def test_no_finished_save_is_lost_and_no_half_written_one_is_found() -> None:
    """I14, D12: on nodes with disks of their own; a cycle report never says more than what was kept."""
    table = play(
        "--cases",
        "14",
        "--lanes",
        "4",
        "--seed",
        "11",
        "--ends",
        ENDS,
        "--ways",
        ";".join(PLAIN),
        "--cycles",
        "1",
    )
    assert "cases:                              14" in table
