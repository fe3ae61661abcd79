"""A server with 100,000 queued runs: a page of its queue and list, why a run waits, its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.figures import percentile
from benchmarks.sandbox import raw_get, sandbox, submit_many, wait_until

RUNS = 100_000
ASKED = 9
QUEUED = "name: waits\nslots: 8\ncommand: [sleep, '3600']\ntime_limit: 1h\n"


def queue_and_why(runs: int = RUNS) -> Mapping[str, float]:
    """One run has the machine, the others wait; asked for the first page, and of runs all along the queue."""
    with sandbox() as client:
        holder = client.submit(QUEUED).id
        wait_until(lambda: client.run(holder).state == "running")
        waiting = submit_many(client, QUEUED, runs, at_a_time=500)
        chosen = [waiting[(len(waiting) - 1) * share // (ASKED - 1)] for share in range(ASKED)]
        queue_s = [timed(lambda: raw_get(client, "/queue?limit=40")) for _ in range(ASKED)]
        page_s = [timed(lambda: raw_get(client, "/runs?limit=50")) for _ in range(ASKED)]
        why_s = [timed(lambda run_id=run_id: raw_get(client, f"/runs/{run_id}/why")) for run_id in chosen]  # type: ignore[misc]
        memory_bytes = _resident_bytes(client.version().pid)
    return {
        "queue": percentile(queue_s, 0.5) * 1000,
        "page": percentile(page_s, 0.5) * 1000,
        "why": max(why_s) * 1000,
        "memory": memory_bytes / 1e6,
    }


def timed(work: Callable[[], object]) -> float:
    """How many seconds something takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * 4096
