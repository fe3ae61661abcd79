"""Signalling the process group of a worker, but not those who only read what another of it writes.

Called by the hook `watch` when workers are asked to leave. `python train.py | tee log` is one group: were
`tee` ended with the training, whatever the training still says while it saves would end it by SIGPIPE. A
reader ends by itself once nobody writes any more. One that handles the signal gets it: it wants to know.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Optional

from tarmac.node import procfs, signals
from tarmac.node.procfs import Process

_ROUNDS = 10
_OUTPUTS = (1, 2)


def ask_group(group: int, number: int) -> None:
    """Send a signal to the processes of a group, sparing mere readers; to all of it where there is none."""
    with suppress(ProcessLookupError, PermissionError):
        spared = _readers(procfs.group(group), number)
        if not spared:
            os.killpg(group, number)
            return
        signalled: set[Process] = set()
        for _ in range(_ROUNDS):  # again, while it forks
            members = procfs.group(group)
            spared |= _readers(members, number)  # once spared, also when the writer is gone
            fresh = set(members) - signalled - spared
            if not fresh:
                return
            for process in fresh:
                signals.send(process, number)
            signalled |= fresh


def _readers(members: list[Process], number: int) -> set[Process]:
    """Those that read from a pipe which another one writes to, and do nothing about the signal but die."""
    inputs = {process: pipe for process in members if (pipe := _pipe(process, 0)) is not None}
    if not inputs:
        return set()
    written = {
        (process, pipe) for process in members for output in _OUTPUTS if (pipe := _pipe(process, output))
    }
    return {
        process
        for process, pipe in inputs.items()
        if any(one != process and other == pipe for one, other in written)
        and not procfs.handles(process.pid, number)
    }


def _pipe(process: Process, descriptor: int) -> Optional[str]:
    """The name of the pipe behind a descriptor, if it is one."""
    try:
        target = os.readlink(f"/proc/{process.pid}/fd/{descriptor}")
    except OSError:
        return None  # it is gone, has closed it, or is another user's
    return target if target.startswith("pipe:") else None
