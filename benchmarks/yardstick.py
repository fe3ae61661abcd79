"""How quick this machine is, so that budgets mean the same on another one. Measured first by `__main__`.

The budgets are for a machine on which a bare Python starts in 12 ms. Bounds of time grow and bounds of rates
shrink by how much longer it takes here; ratios to peers measured in the same run need no such thing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.figures import percentile

REFERENCE_START_MS = 12.0
"""A bare Python on the machine that the budgets are for."""

STARTS = 30
SYNCS = 200
LOOPS = 9


@dataclass(frozen=True, slots=True)
class Yardstick:
    """Medians, in milliseconds: of `python -c pass`, of forking and executing `true`, of writing 4 KiB
    through to the disk, and of a million turns of an empty loop."""

    python_start_ms: float
    spawn_ms: float
    sync_ms: float
    loop_ms: float

    @property
    def scale(self) -> float:
        """By how much slower than the reference this machine is."""
        return self.python_start_ms / REFERENCE_START_MS

    def __str__(self) -> str:
        return (
            f"Yardstick: bare Python {self.python_start_ms:.1f} ms, spawn {self.spawn_ms:.2f} ms, "
            f"fdatasync {self.sync_ms:.2f} ms, loop {self.loop_ms:.1f} ms; "
            f"budgets are scaled by {self.scale:.2f}."
        )


def measure() -> Yardstick:
    """Take the measure of this machine: a few seconds."""
    bare = [sys.executable, "-c", "pass"]
    return Yardstick(
        python_start_ms=_median_ms(lambda: subprocess.run(bare, check=True), STARTS),
        spawn_ms=_median_ms(lambda: subprocess.run(["true"], check=True), STARTS),
        sync_ms=_sync_ms(),
        loop_ms=_median_ms(_loop, LOOPS),
    )


def _sync_ms() -> float:
    with tempfile.TemporaryFile() as file:

        def write_through() -> None:
            os.pwrite(file.fileno(), b"x" * 4096, 0)
            os.fdatasync(file.fileno())

        return _median_ms(write_through, SYNCS)


def _loop() -> None:
    for _ in range(1_000_000):
        pass


def _median_ms(work: Callable[[], object], times: int) -> float:
    took_s = []
    for _ in range(times):
        began = time.perf_counter()
        work()
        took_s.append(time.perf_counter() - began)
    return percentile(took_s, 0.5) * 1000
