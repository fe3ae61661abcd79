"""A run that is played in the torture of checkpoints: what it has, and waiting for what it comes to.

Used by `checkpoint_lineage.py`.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from tarmac import api
from tarmac.client import Client
from tarmac.node.kernel import procfs

PATIENCE_S = 240.0
LOOK_S = 0.05
CUT_PATIENCE_S = 5.0
"""How long to wait for a script's cut, or for a first version: some runs never come to it."""


class Stuck(Exception):
    """Something that must come about did not."""


class PlayedRun:
    """The newest run of a lineage, as a client sees it."""

    def __init__(self, client: Client, run: api.Run) -> None:
        self.client = client
        self.run = run

    def checkpoints(self) -> list[api.Artifact]:
        """The versions of its checkpoint that are kept."""
        return [item for item in self.client.artifacts(self.run.id) if item.kind == "checkpoint"]

    def node(self) -> str:
        """The node that it is on."""
        return self.client.attempts(self.run.id)[-1].nodes[0]

    def worker(self) -> int:
        """The process of its worker."""
        pid = self.client.attempts(self.run.id)[-1].workers[0].pid
        if pid is None:
            raise Stuck(f"{self.run.id}: no worker")
        return pid

    def worked_until(self, attempt: tuple[str, int] | None = None) -> float | None:
        """When the last worker of an attempt (None: its newest one) ended; None while one works."""
        run, number = attempt or (self.run.id, 0)
        ends = [worker.ended_at for worker in self.client.attempts(run)[number - 1].workers]
        return max((at for at in ends if at is not None), default=None) if None not in ends else None

    def wait_for_state(self, *states: str) -> str:
        """Until the run has come to one of them."""
        state = ""

        def is_there() -> bool:
            nonlocal state
            now = self.client.run(self.run.id)
            state = now.state
            if state == "ended" and state not in states:
                raise Stuck(f"ended {now.outcome}: {now.cause}, instead of {states[0]}")
            return state in states

        self.wait_for(is_there, states[0])
        return state

    def wait_for(self, ask: Callable[[], bool], what: str) -> None:
        """Until it is so."""
        deadline = time.monotonic() + PATIENCE_S
        while not ask():
            if time.monotonic() > deadline:
                raise Stuck(f"{self.run.id}: no {what}")
            time.sleep(LOOK_S)

    def wait_at_most(self, ask: Callable[[], bool]) -> None:
        """Until it is so, or for a while."""
        deadline = time.monotonic() + CUT_PATIENCE_S
        while not ask() and time.monotonic() < deadline:
            time.sleep(LOOK_S)


def strike(pid: int) -> None:
    """Kill a process, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def parent_of(pid: int) -> int:
    """The process that started another."""
    found = procfs.status(pid)
    if found is None:
        raise Stuck(f"no process {pid}")
    return found.parent_pid
