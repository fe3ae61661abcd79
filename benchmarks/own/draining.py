"""Draining: how many runs that do nothing are taken from submission to their end per second."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from benchmarks.sandbox import NO_OP, sandbox, submit_many, wait_until
from tarmac.client import Client
from tarmac.model.home import Home

RUNS = 1000
SLOTS_OF_PEERS = 32
LIVE = ("pending", "queued", "starting", "running")


def draining() -> Mapping[str, float]:
    """A thousand runs of one slot each on the local node with its default of eight slots."""
    return _drained(_submit_runs)


def draining_widely() -> Mapping[str, float]:
    """The same on 32 slots, as many as the peers have."""
    return _drained(_submit_runs, prepare=_widen)


def draining_array() -> Mapping[str, float]:
    """The same on 32 slots as the members of one array."""
    return _drained(_submit_array, prepare=_widen)


def _drained(
    submit: Callable[[Client], object], *, prepare: Callable[[Home], object] = lambda _: None
) -> Mapping[str, float]:
    with sandbox(prepare) as client:
        client.wait(client.submit(NO_OP).id)
        began = time.perf_counter()
        submit(client)
        wait_until(lambda: not client.runs(states=LIVE, limit=1).runs, every_s=0.02)
        took_s = time.perf_counter() - began
        ended = client.runs(states=("ended",), limit=2 * RUNS).runs
        assert len(ended) == RUNS + 1, f"{len(ended)} runs ended"
        assert all(run.outcome == "completed" for run in ended)
    return {"drain": RUNS / took_s}


def _submit_runs(client: Client) -> None:
    client.wait(submit_many(client, NO_OP, RUNS, at_a_time=100)[-1])


def _submit_array(client: Client) -> None:
    client.submit(f"{NO_OP}array: 0-{RUNS - 1}\n")


def _widen(home: Home) -> None:
    home.settings.write_text(f"[[local]]\nslots = {SLOTS_OF_PEERS}\n")
