"""Detaches from the starting process: session, descriptors, signals.

Called by `__main__` and `warm`, and by `lease` and `meter` for processes forked beside a runner.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from tarmac.node.kernel import syscalls


def own_session() -> None:
    """Lead a new session, so that no terminal and no group signal of the starter reaches this process."""
    with suppress(PermissionError):  # already a group leader, made by the starter
        os.setsid()


def drop_stdio() -> None:
    """Redirect standard input, output and error to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number, inheritable=True)
    if null > 2:
        os.close(null)


def close_inherited(*, but: frozenset[int]) -> None:
    """Close every descriptor above standard error, except those in `but`."""
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number not in but and os.path.islink(f"/proc/self/fd/{name}"):
            os.close(number)


def beside(runner: int, name: str) -> select.poll:
    """Take this name in a process beside the runner that forked it; the poll ends with the runner."""
    own_session()
    drop_stdio()
    close_inherited(but=frozenset())
    syscalls.rename_self(name)
    gone = select.poll()
    with suppress(OSError, AttributeError):  # older kernel or Python: the caller polls at intervals
        gone.register(os.pidfd_open(runner), select.POLLIN)
    return gone


def default_signals(*ignored: int) -> None:
    """Restore the default action of every signal except those, and unblock all: the starter may differ."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):  # reserved by the C library
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
