"""Submitting: each returned submission is durable. The nodes are drained: nothing else happens meanwhile."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from benchmarks.figures import spread
from benchmarks.own.asking import command_ms, tarmac_program
from benchmarks.sandbox import NO_OP, drain_all, sandbox, submit_many

ONE_BY_ONE = 300
AT_ONCE = 1000
CLIENTS = 50
IN_BATCHES = 2000


def submitting() -> Mapping[str, float]:
    """One by one; from several clients at once; many per request."""
    with sandbox() as client:
        drain_all(client)

        def submit(_: int) -> float:
            began = time.perf_counter()
            client.submit(NO_OP)
            return time.perf_counter() - began

        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(NO_OP)
            file.flush()
            by_command_ms = command_ms([tarmac_program(), "run", "--detach", file.name])
        one_by_one_s = [submit(number) for number in range(ONE_BY_ONE)]
        began = time.perf_counter()
        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(submit, range(AT_ONCE)))
        at_once_s = time.perf_counter() - began
        began = time.perf_counter()
        submit_many(client, NO_OP, IN_BATCHES, at_a_time=100)
        in_batches_s = time.perf_counter() - began
    return {
        **spread("submit", one_by_one_s),
        "command": by_command_ms,
        "submit_rate": AT_ONCE / at_once_s,
        "batch_rate": IN_BATCHES / in_batches_s,
    }
