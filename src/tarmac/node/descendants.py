"""Ending everything below a process, however it forks. Called by the runner, which is a subreaper.

Whatever a worker starts stays below its runner: orphans are handed to the subreaper, whether they changed
their session or forked twice.
"""

from __future__ import annotations

import os
import signal
from typing import Collection

from tarmac.node import procfs, signals
from tarmac.node.procfs import Process

_ROUNDS = 50


def living(*, but: Collection[int] = ()) -> list[Process]:
    """Every living process below this one; `but` are spared, here as in what follows."""
    return procfs.descendants(os.getpid(), but=but)


def ask_to_end(*, but: Collection[int] = ()) -> None:
    """SIGTERM to every descendant of this process."""
    for process in living(but=but):
        _deliver(process, signal.SIGTERM)


def end(*, but: Collection[int] = ()) -> list[Process]:
    """SIGKILL to every descendant of this process; returns those that we may not signal.

    All are stopped first, round by round until nothing new shows up: what is stopped forks no more. The
    caller reaps, and calls again while anything is left.
    """
    stopped: set[Process] = set()
    refusing: list[Process] = []
    for _ in range(_ROUNDS):
        fresh = [found for found in living(but=but) if found not in stopped]
        if not fresh:
            break
        for process in fresh:
            if not _deliver(process, signal.SIGSTOP):
                refusing.append(process)
        stopped.update(fresh)
    for process in stopped:
        _deliver(process, signal.SIGKILL)
    return refusing


def _deliver(process: Process, number: int) -> bool:
    try:
        signals.send(process, number)
    except PermissionError:
        return False
    return True
