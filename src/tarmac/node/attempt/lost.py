"""Finds out whether a runner still serves its claim, and whether an attempt ended without a record.

Such an attempt lost its runner or its machine, so no runner listed its torn checkpoint files or stored its
last changes: the next attempt that uses its directories does both. Called by the hooks `artifacts` and
`pre_post_commands`, by the sidecar, and by engines on the machine of a claim.
"""

from __future__ import annotations

import os
import signal
import time
from typing import NamedTuple, Optional, Sequence

from tarmac.node.attempt.claims import Claim
from tarmac.node.attempt.paths import AttemptPaths, NodePaths
from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs, signals
from tarmac.node.kernel.readiness import readable

_FIRST_BYTES = 64 * 1024
_LAST_BYTES = 4096
_STARTED, _ENDED = b'"worker_started"', b'"ended"'

END_TIMEOUT_S = 5.0
_LOOK_AGAIN_S = 0.001


class Lost(NamedTuple):
    """An attempt without an end, and the last sign of life of its runner."""

    number: int
    at: float


def lost_before(attempt: AttemptPaths, number: int, nodes: Optional[Sequence[str]] = None) -> Optional[Lost]:
    """The last attempt before `number` whose workers started on these nodes, if it is a lost one.

    `nodes` None: on any. An attempt whose workers never started has changed no directory.
    """
    for earlier in range(number - 1, 0, -1):
        paths = AttemptPaths(os.path.join(os.path.dirname(attempt.directory), str(earlier)))
        parts = [paths.node(name) for name in (nodes or paths.node_names())]
        started = [part for part in parts if _has_started(part)]
        if started:
            signs = [_last_sign(part) for part in started if not has_ended(part)]
            return Lost(earlier, min(signs)) if signs else None
    return None


def has_ended(node: NodePaths) -> bool:
    """Whether a runner has written the event `ended`."""
    try:
        end, _ = untrusted.last_bytes(node.events, _LAST_BYTES)
        return _ENDED in end.rsplit(b"\n", 2)[-2]
    except (OSError, IndexError):
        return False


def _has_started(node: NodePaths) -> bool:
    try:
        return _STARTED in untrusted.first_bytes(node.events, _FIRST_BYTES)
    except OSError:
        return False


def _last_sign(node: NodePaths) -> float:
    return max(os.lstat(path).st_mtime for path in (node.heartbeat, node.events) if os.path.lexists(path))


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
