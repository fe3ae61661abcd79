"""Ray Jobs: `ray_session.py` measures in the environment that has Ray, and hands its figures over as JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import System, percentile, spread
from benchmarks.own.asking import command_ms

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ROOT / ".venv-bench/bin"
SESSION = Path(__file__).with_name("ray_session.py")
PATIENCE_S = 600


def system() -> System:
    """Ray Jobs, if its environment is there."""
    if not (PROGRAMS / "ray").exists():
        return System(name="Ray Jobs", absent="not installed: make bench installs it into .venv-bench")
    return System(name="Ray Jobs", measures=(session, asking))


def session() -> Mapping[str, float]:
    """A fresh local Ray with its job server: submissions, starts, a drain."""
    result = subprocess.run(
        [PROGRAMS / "python", SESSION], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    raw = json.loads(result.stdout.splitlines()[-1])
    return {
        **spread("submit", raw["submit_s"]),
        **spread("start", raw["start_s"]),
        **spread("lag", raw["lag_s"]),
        "command": percentile(raw["command_s"], 0.5) * 1000,
        "drain": raw["drain_rate"],
    }


def asking() -> Mapping[str, float]:
    """`ray job --help`."""
    return {"help": command_ms([str(PROGRAMS / "ray"), "job", "--help"], calls=5)}
