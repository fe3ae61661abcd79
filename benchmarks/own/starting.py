"""Starting: from before the submission to the clock that the worker prints; and the first run of all."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.figures import percentile, spread
from benchmarks.own.asking import tarmac_program
from benchmarks.sandbox import NO_OP, sandbox

PRINT_CLOCK = "name: clock\nslots: 1\ncommand: [date, '+%s.%N']\n"
RUNS = 100
WARM_UP = 3
FIRST_RUNS = 5


def starting() -> Mapping[str, float]:
    """One run after the other; the worker is `date`, so that what is measured is tarmac's share."""
    took_s = []
    with sandbox() as client:
        for _ in range(WARM_UP + RUNS):
            began = time.time()
            run_id = client.submit(PRINT_CLOCK).id
            client.wait(run_id)
            printed = "".join(chunk.text for chunk in client.logs(run_id))
            took_s.append(float(printed) - began)
    return spread("start", took_s[WARM_UP:])


def first_run() -> Mapping[str, float]:
    """`tarmac run` where there is no home yet: the server starts, the run is followed to its end."""
    return {"first": percentile([_first_s() for _ in range(FIRST_RUNS)], 0.5) * 1000}


def _first_s() -> float:
    directory = tempfile.mkdtemp(prefix="tarmac-bench-")
    environment = {**os.environ, "TARMAC_HOME": f"{directory}/home"}
    file = Path(directory, "run.yaml")
    file.write_text(NO_OP)
    try:
        began = time.perf_counter()
        subprocess.run([tarmac_program(), "run", str(file)], env=environment, check=True, capture_output=True)
        return time.perf_counter() - began
    finally:
        subprocess.run([tarmac_program(), "server", "stop"], env=environment, check=True, capture_output=True)
        shutil.rmtree(directory)
