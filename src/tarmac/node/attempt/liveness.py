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
    """Wait until the process of a claim has ended or serves it no more, for so long at most."""
    if claim.process is None or not is_alive(claim):
        return
    try:
        handle = os.pidfd_open(claim.process.pid)
    except OSError:
        return  # gone, or an older kernel: the caller looks again
    deadline = time.monotonic() + patience_s
    try:
        while is_alive(claim) and time.monotonic() < deadline:
            readable(handle, _LOOK_AGAIN_S)
    finally:
        os.close(handle)


def is_alive(claim: Claim) -> bool:
    """True only for that very process under that name: it gives the name up when it has done its part.

    A reused pid, a reboot and an unreaped process do not count.

    Meaningful on the node that was claimed; elsewhere the heartbeat is the lease.
    """
    if claim.process is None or claim.boot_id != procfs.boot_id():
        return False
    now = procfs.status(claim.process.pid)
    if now is None or now.process != claim.process or now.unreaped:
        return False
    return claim.name in ("", now.name)


def end(claim: Claim) -> None:
    """End a runner that cannot be talked to, and wait until it is gone."""
    if claim.process is None or not is_alive(claim):
        return
    try:
        handle = os.pidfd_open(claim.process.pid)
    except OSError:
        return  # gone since
    try:
        if signals.send(claim.process, signal.SIGKILL):
            readable(handle, END_TIMEOUT_S)
    finally:
        os.close(handle)
