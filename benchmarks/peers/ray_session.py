"""Measures Ray Jobs on a Ray of its own. Started by `ray_jobs` with the Python that has Ray; prints JSON.

All processes of this Ray are children of this one, on the loopback, and end with it.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ray
from ray.job_submission import JobStatus, JobSubmissionClient

STARTS = 20
RUNS = 30
COMMANDS = 5
LINES = 150
WRITER = f"bash -c 'for line in $(seq {LINES}); do date +%s.%N; sleep 0.02; done'"
FINAL = {JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED}


def main() -> None:
    context = ray.init(num_cpus=8, include_dashboard=True, dashboard_host="127.0.0.1", logging_level="ERROR")
    client = JobSubmissionClient(f"http://{context.dashboard_url}")
    submit_s, start_s = starts(client)
    figures = {
        "submit_s": submit_s,
        "start_s": start_s,
        "drain_rate": drain_rate(client),
        "lag_s": asyncio.run(lags(client)),
        "command_s": commands(f"http://{context.dashboard_url}"),
    }
    ray.shutdown()
    print(json.dumps(figures))


def starts(client: JobSubmissionClient) -> tuple[list[float], list[float]]:
    """How long submitting takes, and how long until the command has written its clock; first one left out."""
    submit_s, start_s = [], []
    clock = Path(tempfile.mkdtemp(prefix="ray-bench-")) / "clock"  # the log may come later than the end
    for _ in range(STARTS + 1):
        began = time.time()
        identifier = client.submit_job(entrypoint=f"date +%s.%N > {clock}")
        submit_s.append(time.time() - began)
        wait(client, identifier)
        start_s.append(float(clock.read_text()) - began)
    return submit_s[1:], start_s[1:]


def commands(address: str) -> list[float]:
    """How long the command line takes to submit."""
    program = Path(sys.executable).with_name("ray")
    took_s = []
    for _ in range(COMMANDS):
        began = time.perf_counter()
        argv = [str(program), "job", "submit", "--address", address, "--no-wait", "--", "true"]
        subprocess.run(argv, check=True, capture_output=True)
        took_s.append(time.perf_counter() - began)
    return took_s


def drain_rate(client: JobSubmissionClient) -> float:
    """Runs that do nothing, from first submission to last end, per second."""
    began = time.perf_counter()
    for identifier in [client.submit_job(entrypoint="true") for _ in range(RUNS)]:
        wait(client, identifier)
    return RUNS / (time.perf_counter() - began)


async def lags(client: JobSubmissionClient) -> list[float]:
    """How late each line of a worker that prints its clock reaches a follower."""
    found, rest = [], ""
    async for text in client.tail_job_logs(client.submit_job(entrypoint=WRITER)):
        now = time.time()
        *lines, rest = (rest + text).split("\n")
        found += [now - float(line) for line in lines if line.startswith("1")]
    return found


def wait(client: JobSubmissionClient, identifier: str) -> None:
    """Until the job has ended."""
    while (status := client.get_job_status(identifier)) not in FINAL:
        time.sleep(0.01)
    if status is not JobStatus.SUCCEEDED:
        sys.exit(f"{identifier} ended {status}: {client.get_job_logs(identifier)}")


if __name__ == "__main__":
    main()
