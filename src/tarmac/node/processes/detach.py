"""Detaching from the process that started us: session, descriptors, signals.

Called by `entry` and `warm`, and by `lease` and `meter` for what is forked beside a runner.
"""

from __future__ import annotations

import os
import select
import signal
from contextlib import suppress

from tarmac.node.kernel import procfs


def own_session() -> None:
    """Lead a session of our own, so that no terminal and no group signal of the starter reaches us."""
    with suppress(PermissionError):  # we lead a group already: whoever started us gave us one
        os.setsid()


def drop_stdio() -> None:
    """Standard input, output and error become /dev/null."""
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
    """Become a process of this name beside the runner that forked it; the poll ends with the runner."""
    own_session()
    drop_stdio()
    close_inherited(but=frozenset())
    procfs.rename_self(name)
    gone = select.poll()
    with suppress(OSError, AttributeError):  # an older kernel, or Python: who polls looks now and then
        gone.register(os.pidfd_open(runner), select.POLLIN)
    return gone


def default_signals() -> None:
    """Every signal acts as it does in a fresh process, and none is blocked; whoever started us may differ."""
    for number in signal.valid_signals():
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            try:
                signal.signal(number, signal.SIG_DFL)
            except OSError:
                continue  # reserved by the C library
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
