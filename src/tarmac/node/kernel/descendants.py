"""Ending everything below a process, however it forks. Called by the runner, which is a subreaper.

Whatever a worker starts stays below its runner: orphans are handed to the subreaper, whether they changed
their session or forked twice.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import Callable, Collection, Iterator

from tarmac.node.kernel import procfs, signals
from tarmac.node.kernel.procfs import Process

_ROUNDS = 50
_STOPPED = (b"T", b"t", b"Z", b"X", b"D")
_PATIENCE_S = 0.2
_LOOK_AGAIN_S = 0.001


def living(*, but: Collection[int] = ()) -> list[Process]:
    """Every living process below this one; `but` are spared, here as in what follows."""
    return procfs.descendants(os.getpid(), but=but)


def ask_to_end(*, but: Collection[int] = ()) -> None:
    """SIGTERM to every descendant of this process."""
    for process in living(but=but):
        _deliver(process, signal.SIGTERM)


@contextmanager
def stopped(*, but: Collection[int] = ()) -> Iterator[None]:
    """Every descendant of this process is stopped while inside, and goes on afterwards."""
    stopped, _ = _stop(but)
    try:
        yield
    finally:
        for process in stopped:
            _deliver(process, signal.SIGCONT)


def end(*, but: Collection[int] = (), before: Callable[[], object] = lambda: None) -> list[Process]:
    """SIGKILL to every descendant of this process; returns those that we may not signal.

    All are stopped first; `before` is called in between. The caller reaps, and calls again while anything is
    left.
    """
    stopped, refusing = _stop(but)
    before()
    for process in stopped:
        _deliver(process, signal.SIGKILL)
    return refusing


def _stop(but: Collection[int]) -> tuple[set[Process], list[Process]]:
    """Stop them, round by round until nothing new shows up: what is stopped forks no more.

    Those who stand still (in the middle of a system call they may, for a moment, not), and who refuse.
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
    deadline = time.monotonic() + _PATIENCE_S
    waiting = stopped.difference(refusing)
    while waiting and time.monotonic() < deadline:
        waiting = {process for process in waiting if procfs.state(process.pid) not in _STOPPED}
        if waiting:
            time.sleep(_LOOK_AGAIN_S)
    return stopped, refusing


def _deliver(process: Process, number: int) -> bool:
    try:
        signals.send(process, number)
    except PermissionError:
        return False
    return True
