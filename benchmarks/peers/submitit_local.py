"""submitit's local executor: a process per run, no queue, no server. Measured in this process."""

from __future__ import annotations

import importlib
import importlib.util
import tempfile
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.figures import System, spread

RUNS = 100
STARTS = 100


def system() -> System:
    """submitit, if it is installed here."""
    if importlib.util.find_spec("submitit") is None:
        return System(name="submitit", absent="not installed: make bench installs it")
    return System(name="submitit", measures=(starting, draining))


def starting() -> Mapping[str, float]:
    """One after the other; what it runs is the reading of the clock."""
    executor, submitted_s, took_s = _executor(), [], []
    for _ in range(STARTS):
        began = time.time()
        submission = executor.submit(time.time)
        submitted_s.append(time.time() - began)
        took_s.append(submission.result() - began)
    return {**spread("submit", submitted_s), **spread("start", took_s)}


def draining() -> Mapping[str, float]:
    """A hundred at once: every one is a process straight away."""
    executor = _executor()
    began = time.perf_counter()
    for submission in [executor.submit(time.time) for _ in range(RUNS)]:
        submission.result()
    return {"drain": RUNS / (time.perf_counter() - began)}


def _executor() -> Any:
    submitit: Any = importlib.import_module("submitit")  # is not always installed, and has no types
    return submitit.LocalExecutor(folder=tempfile.mkdtemp(prefix="submitit-bench-"))
