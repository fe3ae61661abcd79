"""Draining: how many runs that do nothing are taken from submission to their end per second."""

from __future__ import annotations

import time
from collections.abc import Mapping

from benchmarks.sandbox import NO_OP, sandbox, submit_many, wait_until

RUNS = 1000
LIVE = ("pending", "queued", "starting", "running")


def draining() -> Mapping[str, float]:
    """A thousand runs of one slot each on the local node."""
    with sandbox() as client:
        client.wait(client.submit(NO_OP).id)
        began = time.perf_counter()
        last = submit_many(client, NO_OP, RUNS, at_a_time=100)[-1]
        client.wait(last)
        wait_until(lambda: not client.runs(states=LIVE, limit=1).runs, every_s=0.02)
        took_s = time.perf_counter() - began
        ended = client.runs(states=("ended",), limit=2 * RUNS).runs
        assert len(ended) == RUNS + 1, f"{len(ended)} runs ended"
        assert all(run.outcome == "completed" for run in ended)
    return {"drain": RUNS / took_s}
