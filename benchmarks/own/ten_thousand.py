"""Listing and recovering with 10,000 runs on record: both need them, and making them takes a while."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping
from typing import Any

from benchmarks.figures import percentile
from benchmarks.sandbox import NO_OP, drain_all, raw_get, sandbox, submit_many, wait_until
from tarmac.client import Client

RUNS = 10_000
LISTS = 15
SLEEPERS = 4
SLEEPER = "name: sleeper\nslots: 1\ncommand: [sleep, '600']\n"


def listing_and_recovery() -> Mapping[str, float]:
    """The whole list in one answer; then the server is killed, and the next one has to know everything."""
    with sandbox() as client:
        sleepers = [client.submit(SLEEPER).id for _ in range(SLEEPERS)]
        wait_until(lambda: all(client.run(run_id).state == "running" for run_id in sleepers))
        drain_all(client)
        submit_many(client, NO_OP, RUNS - SLEEPERS, at_a_time=500)
        lists_s = [_timed_list(client) for _ in range(LISTS)]
        recovery_s, lost = _recovery(client, sleepers)
    return {"list": percentile(lists_s, 0.5) * 1000, "recovery": recovery_s, "lost": lost}


def _timed_list(client: Client) -> float:
    """Seconds until the whole answer is here; reading it as JSON is the client's own affair."""
    began = time.perf_counter()
    answer = raw_get(client, f"/runs?limit={RUNS}")
    took_s = time.perf_counter() - began
    found = len(json.loads(answer)["runs"])
    assert found == RUNS, f"{found} runs listed"
    return took_s


def _recovery(client: Client, sleepers: list[str]) -> tuple[float, float]:
    """Seconds from `kill -9` to the full list from the next server; how many runs are not as they were."""
    before = _record(client, sleepers)
    os.kill(client.version().pid, signal.SIGKILL)
    began = time.perf_counter()
    after = _record(client, sleepers)
    took_s = time.perf_counter() - began
    return took_s, float(sum(before[run_id] != after.get(run_id) for run_id in before))


def _record(client: Client, sleepers: list[str]) -> dict[str, Any]:
    """State and attempt of every run, and the process of each that runs."""
    listed = client.runs(limit=RUNS).runs
    record: dict[str, Any] = {run.id: (run.state, run.attempt) for run in listed}
    for run_id in sleepers:
        workers = client.attempts(run_id)[-1].workers
        record[f"workers of {run_id}"] = [worker.pid for worker in workers]
    return record
