"""Ends all descendants of a process, however they fork. Called by the runner, which is a subreaper.

All processes that a worker starts stay below its runner: the subreaper inherits orphans, even after a change
of session or a double fork.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from typing import Callable, Collection, Iterator

from tarmac.node.kernel import procfs, signals

_ROUNDS = 50
_STOPPED = (b"T", b"t", b"Z", b"X", b"D")
_PATIENCE_S = 0.2
_LOOK_AGAIN_S = 0.001


def living(*, but: Collection[int] = ()) -> list[procfs.Process]:
    """Every living descendant of this process except `but`, which the other functions also spare."""
    return procfs.descendants(os.getpid(), but=but)


def ask_to_end(*, but: Collection[int] = ()) -> None:
    """Send SIGTERM to every descendant of this process."""
    for process in living(but=but):
        _deliver(process, signal.SIGTERM)


@contextmanager
def stopped(*, but: Collection[int] = ()) -> Iterator[None]:
    """Every descendant of this process is stopped inside the context, and continues afterwards."""
    stopped, _ = _stop(but)
    try:
        yield
    finally:
        for process in stopped:
            _deliver(process, signal.SIGCONT)


def end(*, but: Collection[int] = (), before: Callable[[], object] = lambda: None) -> list[procfs.Process]:
    """Send SIGKILL to every descendant of this process; returns those that it may not signal.

    All are stopped first; then `before` is called. The caller reaps, and repeats the call while any
    descendant is left.
    """
    stopped, refusing = _stop(but)
    before()
    for process in stopped:
        _deliver(process, signal.SIGKILL)
    return refusing


def _stop(but: Collection[int]) -> tuple[set[procfs.Process], list[procfs.Process]]:
    """Stop descendants in rounds until no new one appears, since stopped processes do not fork.

    Returns the stopped ones (one in a system call may continue for a moment), and those that refuse the
    signal.
    """
    stopped: set[procfs.Process] = set()
    refusing: list[procfs.Process] = []
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


def _deliver(process: procfs.Process, number: int) -> bool:
    try:
        signals.send(process, number)
    except PermissionError:
        return False
    return True
