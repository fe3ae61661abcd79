"""The lease of a node's part of an attempt, for nodes that can be cut off from the server, and its guard.

The process that the server reaches on the node (`node/host/operations.py`) calls `renew` for each question of
the server about the attempt: the lease proves contact with the server, not a living program on the node. The
cluster's contact with its node also counts: while the server is down, no other attempt can start. The runner
checks the lease and makes the workers leave after its expiry. The guard is a process beside the runner that
ends the workers if the runner cannot: it was killed, or hangs beyond the lease and the grace. In a namespace
of processes the kernel ends them all with a killed runner; without one only the guard does, so the guard
starts at once. In a namespace it starts only beside a long attempt: a fork takes a third of the time of a
short one.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NoReturn, Optional

from tarmac.node.attempt import claims
from tarmac.node.attempt.document import Launch, NodeLaunch
from tarmac.node.attempt.protocol import AttemptPaths, NodePaths
from tarmac.node.files import untrusted
from tarmac.node.kernel.system_users import as_server
from tarmac.node.processes import detach
from tarmac.node.processes.children import Aside, Children

MARGIN_S = 10.0
"""Seconds after the lease and the grace in which a runner may finish its own end."""

GUARDED_AFTER_S = 2.0
"""Seconds after which an attempt in a namespace of processes gets a guard."""

_LOOK_S = 1.0
_CLOCK = time.CLOCK_BOOTTIME
"""This clock also runs while a machine is suspended, and no one can set it."""


def renew(directory: str) -> None:
    """Renew the leases of an attempt in this directory that have begun on this node."""
    attempt = AttemptPaths(directory)
    for name in attempt.node_names():
        with suppress(OSError):  # no lease, or not yet
            _stamp(attempt.node(name).lease)


def contact_path(directory: str, address: str) -> str:
    """The file of a node whose time is the cluster's last contact with it."""
    return os.path.join(directory, f"contact-{address}")


class Lease:
    """The lease of one node's part, whose files are `node`; without `lease_s` it never expires."""

    def __init__(self, document: Launch, part: NodeLaunch, node: NodePaths) -> None:
        self._path = node.lease
        self._signs = [node.lease]
        if document.settings.contact is not None:
            self._signs.append(contact_path(document.settings.contact, part.address))
        self._lease_s = document.settings.lease_s
        self._token, self._grace_s = document.token, document.grace_s
        self._renewed_s = _now_s()
        self.guard = Aside(self._be_guard)

    def begin(self, children: Children, *, has_namespace: bool) -> None:
        """Start the lease now. Raises OSError."""
        if self._lease_s is None:
            return
        untrusted.touch(self._path)
        _stamp(self._path)
        self._renewed_s = _now_s()
        self.guard.due = time.monotonic() + (GUARDED_AFTER_S if has_namespace else 0.0)
        self.guard.look(children)

    @as_server()
    def left_s(self) -> Optional[float]:
        """Seconds until the lease expires, negative after that; None: never."""
        if self._lease_s is None:
            return None
        now_s = _now_s()
        known_s = []
        for path in self._signs:
            with suppress(OSError):  # there is none
                known_s.append(os.lstat(path).st_mtime_ns / 1e9)
        # Without one the last poll counts; a time after now was not stamped since the boot.
        self._renewed_s = max((at_s for at_s in known_s if at_s <= now_s), default=self._renewed_s)
        return self._renewed_s + self._lease_s - now_s

    def _be_guard(self, runner: int) -> NoReturn:
        """Run as the guard until the runner ends it or has ended."""
        gone = detach.beside(runner, "tarmac-guard")
        while True:
            gone.poll(_LOOK_S * 1000)
            lost, left_s = os.getppid() != runner, self.left_s()
            if lost or (left_s is not None and left_s < -(self._grace_s + MARGIN_S)):
                with suppress(TimeoutError):  # the next round searches again
                    claims.end_orphans(self._token)
                    if lost:
                        os._exit(0)


def _now_s() -> float:
    return time.clock_gettime(_CLOCK)


def _stamp(path: str) -> None:
    """Set the file's modification time to the time since the boot, which needs no disk space."""
    now_ns = time.clock_gettime_ns(_CLOCK)
    os.utime(path, ns=(now_ns, now_ns), follow_symlinks=False)
