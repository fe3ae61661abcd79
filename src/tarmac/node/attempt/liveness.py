"""Whether the runner that made a claim still serves it. Called by engines, on the machine of the claim."""

from __future__ import annotations

import os
import signal
import time

from tarmac.node.attempt.claims import Claim
from tarmac.node.kernel import procfs, signals
from tarmac.node.kernel.readiness import readable

END_TIMEOUT_S = 5.0
_LOOK_AGAIN_S = 0.001


def wait_for_end(claim: Claim, patience_s: float) -> None:
    """Wait, at most `patience_s`, until the process of a claim has ended or no longer serves it."""
    if claim.process is None or not is_alive(claim):
        return
    try:
        handle = os.pidfd_open(claim.process.pid)
    except OSError:
        return  # it has ended, or the kernel is older: the caller polls
    deadline = time.monotonic() + patience_s
    try:
        while is_alive(claim) and time.monotonic() < deadline:
            readable(handle, _LOOK_AGAIN_S)
    finally:
        os.close(handle)


def is_alive(claim: Claim) -> bool:
    """True only for the same process under the same name, which it gives up at the end of its part.

    A reused pid, a reboot and an unreaped process do not count.

    Valid only on the node of the claim; elsewhere the heartbeat is the lease.
    """
    if claim.process is None or claim.boot_id != procfs.boot_id():
        return False
    now = procfs.status(claim.process.pid)
    if now is None or now.process != claim.process or now.unreaped:
        return False
    return claim.name in ("", now.name)


def end(claim: Claim) -> None:
    """End an unresponsive runner, and wait until it has ended."""
    if claim.process is None or not is_alive(claim):
        return
    try:
        handle = os.pidfd_open(claim.process.pid)
    except OSError:
        return  # ended since
    try:
        if signals.send(claim.process, signal.SIGKILL):
            readable(handle, END_TIMEOUT_S)
    finally:
        os.close(handle)
