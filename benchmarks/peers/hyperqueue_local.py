"""HyperQueue: its server and one worker of 32 slots in one process, through its Python interface.

`python -m benchmarks.peers.hyperqueue_local` measures in a process of its own and prints the raw figures as
JSON. Its cluster in a process has no journal, and the tasks write no files: its quickest way, which keeps
nothing over a crash.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.figures import System, spread

MODULE = "benchmarks.peers.hyperqueue_local"
CORES = 32
RUNS = 3000
STARTS = 100
WARM_UP = 3
PATIENCE_S = 300


def systems() -> list[System]:
    """HyperQueue with a job for each run, and with all runs as the tasks of one job."""
    if importlib.util.find_spec("hyperqueue") is None:
        return [System(name="HyperQueue", absent="not installed: make bench installs it")]
    return [
        System(name="HyperQueue", measures=(jobs,)),
        System(name="HyperQueue, one job", measures=(tasks,)),
    ]


def jobs() -> Mapping[str, float]:
    """A job for each run: submissions, starts one after the other, a drain."""
    raw = _measured("jobs")
    return {**spread("submit", raw["submit_s"]), **spread("start", raw["start_s"]), "drain": raw["rate"]}


def tasks() -> Mapping[str, float]:
    """The drain of one job that has a task for each run."""
    return {"drain": _measured("tasks")["rate"]}


def _measured(what: str) -> Any:
    with tempfile.TemporaryDirectory(prefix="hyperqueue-bench-") as directory:
        command = [sys.executable, "-m", MODULE, what, directory]
        printed = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=PATIENCE_S
        ).stdout
    return json.loads(printed.splitlines()[-1])


def main(what: str, directory: Path) -> None:
    """Measure one of the two ways in this process."""
    queue: Any = importlib.import_module("hyperqueue")  # is not always installed, and has no types
    local: Any = importlib.import_module("hyperqueue.cluster")
    with local.LocalCluster(str(directory)) as cluster:
        cluster.start_worker(local.WorkerConfig(cores=CORES))
        client = cluster.client()
        _wait(client, [client.submit(_job(queue, 1))])
        raw = _jobs(queue, client, directory) if what == "jobs" else {"rate": _rate(queue, client)}
        print(f"\n{json.dumps(raw)}", flush=True)


def _jobs(queue: Any, client: Any, directory: Path) -> dict[str, object]:
    start_s = [_start(queue, client, directory / f"clock-{number}") for number in range(WARM_UP + STARTS)]
    submit_s, submitted = [], []
    began = time.perf_counter()
    for _ in range(RUNS):
        at = time.perf_counter()
        submitted.append(client.submit(_job(queue, 1)))
        submit_s.append(time.perf_counter() - at)
    _wait(client, submitted)
    rate = RUNS / (time.perf_counter() - began)
    return {"submit_s": submit_s, "start_s": start_s[WARM_UP:], "rate": rate}


def _start(queue: Any, client: Any, clock: Path) -> float:
    """From before the submission to the clock that the task prints into a file."""
    began = time.time()
    job = queue.Job()
    job.program(["date", "+%s.%N"], stdout=str(clock), stderr=None)
    _wait(client, [client.submit(job)])
    return float(clock.read_text()) - began


def _rate(queue: Any, client: Any) -> float:
    began = time.perf_counter()
    _wait(client, [client.submit(_job(queue, RUNS))])
    return RUNS / (time.perf_counter() - began)


def _job(queue: Any, count: int) -> Any:
    """A job of tasks that do nothing and whose output goes nowhere."""
    job = queue.Job()
    for _ in range(count):
        job.program(["true"], stdout=None, stderr=None)
    return job


def _wait(client: Any, submitted: list[Any]) -> None:
    """Wait without the progress bar that the client would draw."""
    failed = client.connection.wait_for_jobs([job.id for job in submitted], lambda _: None)
    assert not failed, f"jobs failed: {failed[:5]}"


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
