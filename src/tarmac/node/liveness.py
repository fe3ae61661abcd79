"""Whether the runner that made a claim still lives. Called by engines, on the machine of the claim."""

from __future__ import annotations

import os
import select

from tarmac.node import procfs
from tarmac.node.claims import Claim


def wait_for_end(claim: Claim, patience_s: float) -> None:
    """Wait until the process of a claim has ended, for so long at most."""
    if claim.process is None:
        return
    try:
        handle = os.pidfd_open(claim.process.pid)
    except OSError:
        return  # gone, or an older kernel: the caller looks again
    try:
        if is_alive(claim):
            select.select([handle], [], [], patience_s)
    finally:
        os.close(handle)


def is_alive(claim: Claim) -> bool:
    """True only for that very process: a reused pid, a reboot and an unreaped process do not count.

    Meaningful on the node that was claimed; elsewhere the heartbeat is the lease.
    """
    if claim.process is None or claim.boot_id != procfs.boot_id():
        return False
    now = procfs.status(claim.process.pid)
    return now is not None and now.process == claim.process and not now.unreaped
