"""Finds and ends the remaining processes of a lost runner, by the token that every descendant carries.

Called by engines for a runner known to be dead. The search misses a process that cleared its environment; a
living runner would have found it by `descendants`.
"""

from __future__ import annotations

import os
import signal
import time
from functools import partial

from tarmac.node.attempt import protocol
from tarmac.node.kernel import procfs, signals
from tarmac.node.kernel.procfs import Process
from tarmac.node.kernel.sockets import readable


def end_orphans(token: str, *, timeout_s: float = 5.0) -> int:
    """End every process that carries the attempt's token, and wait for it; returns their number.

    Repeats until none is left, because one may fork during the search. Raises TimeoutError if some remain
    after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    ended: set[Process] = set()
    while found := find_orphans(token):
        for process in found:
            try:
                signals.send(process, signal.SIGKILL, still=partial(_carries, process.pid, token))
            except PermissionError:
                continue  # its user changed; the deadline decides
            ended.add(process)
        for process in found:
            _wait_for_end(process, deadline)
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {[process.pid for process in found]} do not end")
    return len(ended)


def find_orphans(token: str) -> list[Process]:
    """All other processes whose environment carries the token."""
    found = []
    for pid in procfs.pids():
        if pid != os.getpid() and _carries(pid, token):
            status = procfs.status(pid)
            if status is not None and not status.unreaped:
                found.append(status.process)
    return found


def _carries(pid: int, token: str) -> bool:
    entry = f"{protocol.TOKEN_VARIABLE}={token}".encode()
    try:
        return entry in procfs.environment(pid).split(b"\0")
    except OSError:
        return False  # ended, or another user's


def _wait_for_end(process: Process, deadline: float) -> None:
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return  # ended, or an older kernel: the caller polls
    try:
        now = procfs.status(process.pid)
        if now is not None and now.process == process:
            readable(handle, deadline - time.monotonic())
    finally:
        os.close(handle)
