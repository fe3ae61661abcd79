"""Who has left is known with how they left, however the moment falls."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tarmac.node.processes.children import Children

TRIES = 40
BOUND_S = 60.0


@pytest.mark.timeout(120)
def test_nothing_is_left_only_once_all_were_reaped(tmp_path: Path) -> None:
    """Also beside a process that stays: a worker that leaves while we look is not overlooked."""
    children = Children()
    run = {"env": dict(os.environ), "directory": str(tmp_path), "log": str(tmp_path / "log")}
    nothing, _ = os.pipe()
    guard = children.start_aside(["cat"], stdout=str(tmp_path / "out"), stdin=nothing, **run)  # type: ignore[arg-type]
    try:
        for _ in range(TRIES):
            worker = children.start(["bash", "-c", "exit 3"], **run)  # type: ignore[arg-type]
            deadline = time.monotonic() + BOUND_S
            while not children.none_left:
                children.reap()
                assert time.monotonic() < deadline
            assert (worker.left, worker.exit_code) == (True, 3)
    finally:
        children.end_aside(guard)
