"""Signals single processes without ever hitting a reused pid, and the process groups of workers.

Called by `claims` and `children`. A worker's group gets the signal to leave, except processes
that only read another member's output: `python train.py | tee log` is one group, and if `tee` ended by the
signal, the next line that the training prints while it saves would end the training by SIGPIPE. A reader ends
by itself after its writers have closed the pipe. A reader with a handler for the signal gets the signal.
"""

from __future__ import annotations

import os
import signal
import stat
from contextlib import suppress
from typing import Callable, Optional

from tarmac.node.kernel import procfs
from tarmac.node.kernel.handles import closing
from tarmac.node.kernel.sockets import readable

_ROUNDS = 10


def send(process: procfs.Process, number: int, *, still: Optional[Callable[[], bool]] = None) -> bool:
    """Send a signal to exactly this process; False if it has ended.

    `still` checks a further condition after the process is held. Raises PermissionError if the process is
    another user's.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return False
    except OSError:
        handle = -1  # an older kernel: the check and the signal are then two steps
    try:
        now = procfs.status(process.pid)
        if now is None or now.process != process or (still is not None and not still()):
            return False
        if handle < 0:
            os.kill(process.pid, number)
        else:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        if handle >= 0:
            os.close(handle)
    return True


def wait_for_end(process: procfs.Process, within_s: float) -> None:
    """Wait until this process has ended, but not on kernels before 5.3: callers poll as well."""
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return
    with closing(handle):
        if procfs.lives(process):
            readable(handle, within_s)


def ask_group(group: int, number: int) -> None:
    """Send a signal to the processes of a group, sparing mere readers; to all if only readers remain."""
    with suppress(ProcessLookupError, PermissionError):
        spared = _readers(procfs.group(group), number)
        if not spared:
            os.killpg(group, number)
            return
        signalled: set[procfs.Process] = set()
        for _ in range(_ROUNDS):  # repeat while it forks
            members = procfs.group(group)
            spared |= _readers(members, number)  # a spared process stays spared, even after its writer ended
            fresh = set(members) - signalled - spared
            if not fresh:
                return
            for process in fresh:
                send(process, number)
            signalled |= fresh


def _readers(members: list[procfs.Process], number: int) -> set[procfs.Process]:
    """The members that read from a pipe of another writing member, and have no handler for the signal."""
    inputs = {process: pipe for process in members if (pipe := _pipe(process, "0")) is not None}
    if not inputs:
        return set()
    outputs = {process: _outputs(process) for process in members}
    return {
        process
        for process, pipe in inputs.items()
        if any(pipe in outputs[other] for other in members if other != process)
        and not procfs.handles(process.pid, number)
    }


def _outputs(process: procfs.Process) -> set[str]:
    """The pipes that a process can write to: `tee >(cat)` also writes to one beside its standard output."""
    descriptors = procfs.names(f"/proc/{process.pid}/fd")
    return {pipe for name in descriptors if (pipe := _pipe(process, name, may=stat.S_IWUSR)) is not None}


def _pipe(process: procfs.Process, descriptor: str, *, may: int = stat.S_IRUSR) -> Optional[str]:
    """The name of the pipe behind a descriptor, if it is a pipe open for reading (or writing)."""
    path = f"/proc/{process.pid}/fd/{descriptor}"
    try:
        target, mode = os.readlink(path), os.lstat(path).st_mode
    except OSError:
        return None  # it has ended, has closed it, or is another user's
    return target if target.startswith("pipe:") and mode & may else None
