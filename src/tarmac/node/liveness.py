"""Whether the runner that made a claim still lives. Called by engines, on the machine of the claim."""

from __future__ import annotations

from tarmac.node import procfs
from tarmac.node.claims import Claim


def is_alive(claim: Claim) -> bool:
    """True only for that very process: a reused pid, a reboot and an unreaped process do not count.

    Meaningful on the node that was claimed; elsewhere the heartbeat is the lease.
    """
    if claim.process is None or claim.boot_id != procfs.boot_id():
        return False
    now = procfs.status(claim.process.pid)
    return now is not None and now.process == claim.process and not now.unreaped
