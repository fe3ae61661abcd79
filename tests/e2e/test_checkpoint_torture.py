"""Runs that save in many ways are ended in many ways, at chosen moments: what was finished is there.

A tenth of what `tools/checkpoint_torture.py` plays by hand. Imitations write what the frameworks write; the
frameworks themselves are played where they are installed: PyTorch here, others after `make frameworks`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "checkpoint_torture.py"
LIMIT_S = 600
FRAMEWORKS = (
    *("Trainer", "Trainer, shards", "safetensors shards", "accelerate", "Orbax"),
    *("DCP", "DCP, one directory", "DeepSpeed ZeRO", "torch.save, one file", "text in place", "SDK"),
)
PLAIN = ("renamed", "linked", "directory swapped", "in place, by step", "on SIGTERM", "appended", "in turns")
LIBRARIES = ("DCP, library", "Trainer, library", "Orbax, library")


def play(*arguments: str) -> str:
    """The table of a torture that found nothing wrong."""
    command = [sys.executable, str(TOOL), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S - 20)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.heavy
@pytest.mark.timeout(240)
def test_no_finished_save_is_lost_and_no_half_written_one_is_found() -> None:
    """I14, D12: on nodes with disks of their own; a cycle report never says more than what was kept."""
    table = play("--cases", "14", "--lanes", "4", "--seed", "11", "--ways", ";".join(PLAIN), "--cycles", "1")
    assert "cases:                              14" in table


@pytest.mark.real_engine
@pytest.mark.timeout(LIMIT_S)
def test_saves_of_frameworks_survive_every_way_of_ending() -> None:
    """I14, D12, D6: 50 cases of what the frameworks write, with killed runners and nodes and full disks."""
    table = play("--cases", "50", "--lanes", "3", "--seed", "7", "--ways", ";".join(FRAMEWORKS))
    assert "cases:                              50" in table


@pytest.mark.torch
@pytest.mark.timeout(LIMIT_S)
def test_the_frameworks_themselves_resume_from_what_is_kept() -> None:
    """I14: those that are not installed are named, and not played."""
    ends = "pause,stop,runner,node"
    table = play(
        *("--cases", "8", "--lanes", "2", "--seed", "3", "--ways", ";".join(LIBRARIES), "--ends", ends)
    )
    assert "cases:                              8" in table
