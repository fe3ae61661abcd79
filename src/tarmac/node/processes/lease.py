"""The lease of an attempt's part on a node that can be cut off from the server, and who ends it without one.

`renew` is called for the server by whoever it reaches on the node (`node/host/operations.py`), each time it
asks about the attempt: the lease shows the server's contact, not the life of a program here. The contact of
the cluster with its node counts as well: while the server is down, nobody starts another attempt. The
runner looks at the lease and, once it has expired, has the workers leave. Its guard is a process beside it
that ends the workers where the runner cannot: it was killed, or hangs beyond the lease and the grace. In a
namespace of processes a killed runner takes all of them with it; elsewhere only the guard does that, so there
it is started at once, and in a namespace only beside an attempt that lasts: a fork is a third of what a short
attempt takes.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import NoReturn, Optional

from tarmac.node.attempt.document import Launch, NodeLaunch
from tarmac.node.attempt.paths import AttemptPaths, NodePaths
from tarmac.node.files import untrusted
from tarmac.node.processes import detach, orphans
from tarmac.node.processes.children import Child, Children

MARGIN_S = 10.0
"""How long after the lease and the grace a runner may still be at work on its own end."""

GUARDED_AFTER_S = 2.0
"""From when on an attempt in a namespace of processes has a guard."""

_LOOK_S = 1.0
_CLOCK = time.CLOCK_BOOTTIME
"""It goes on while a machine is suspended, and nobody sets it."""


def renew(directory: str) -> None:
    """Renew the leases of an attempt in this directory that have begun here."""
    attempt = AttemptPaths(directory)
    for name in attempt.node_names():
        with suppress(OSError):  # it has none, or not yet
            _stamp(attempt.node(name).lease)


def contact_path(directory: str, address: str) -> str:
    """The file of a node whose time says when its cluster last reached it."""
    return os.path.join(directory, f"contact-{address}")


def lease_of(document: Launch, part: NodeLaunch, node: NodePaths) -> Lease:
    """The lease of a node's part of an attempt, whose files are `node`."""
    directory, lease_s = document.settings.contact, document.settings.lease_s
    return Lease(node, lease_s, contact=None if directory is None else contact_path(directory, part.address))


class Lease:
    """That of one node's part; `lease_s` None: it has none, and never expires.

    `contact` is the file of this node that the cluster renews, where it has one.
    """

    def __init__(self, node: NodePaths, lease_s: Optional[float], *, contact: Optional[str] = None) -> None:
        self._path = node.lease
        self._signs = (node.lease,) if contact is None else (node.lease, contact)
        self._lease_s = lease_s
        self._token, self._grace_s = "", 0.0
        self._renewed_s = _now_s()
        self._guard: Optional[Child] = None
        self.guard_due: Optional[float] = None
        """When a guard has to be there (monotonic clock); None: it is, or there is no lease."""

    def begin(self, children: Children, *, token: str, grace_s: float, has_namespace: bool) -> None:
        """The lease runs from now on. Raises OSError."""
        if self._lease_s is None:
            return
        untrusted.touch(self._path)
        _stamp(self._path)
        self._renewed_s = _now_s()
        self._token, self._grace_s = token, grace_s
        self.guard_due = time.monotonic() + (GUARDED_AFTER_S if has_namespace else 0.0)
        self.look(children)

    def look(self, children: Children) -> None:
        """Start the guard once it is due. Raises OSError."""
        if self.guard_due is None or time.monotonic() < self.guard_due:
            return
        self.guard_due = None
        runner = os.getpid()
        self._guard = children.fork_aside(lambda: self._be_guard(runner))

    def left_s(self) -> Optional[float]:
        """How long until it expires, below 0 once it has; None: never."""
        if self._lease_s is None:
            return None
        now_s = _now_s()
        seen_s = [_stamped_s(path) for path in self._signs]
        known_s = [sign_s for sign_s in seen_s if sign_s is not None and sign_s <= now_s]
        if known_s:  # else the last look counts; what lies ahead, nobody has stamped since the boot
            self._renewed_s = max(known_s)
        return self._renewed_s + self._lease_s - now_s

    def end_guard(self, children: Children) -> None:
        """Nothing of the attempt runs here any more."""
        self.guard_due = None
        if self._guard is None:
            return
        children.end_aside(self._guard)
        self._guard = None

    def _be_guard(self, runner: int) -> NoReturn:
        """The guard, until the runner ends it or is no more."""
        gone = detach.beside(runner, "tarmac-guard")
        while True:
            gone.poll(_LOOK_S * 1000)
            lost, left_s = os.getppid() != runner, self.left_s()
            if lost or (left_s is not None and left_s < -(self._grace_s + MARGIN_S)):
                with suppress(TimeoutError):  # they are looked for again
                    orphans.end_orphans(self._token)
                    if lost:
                        os._exit(0)


def _stamped_s(path: str) -> Optional[float]:
    """When a file was stamped, by the time since the boot; None where there is none."""
    try:
        return os.lstat(path).st_mtime_ns / 1e9
    except OSError:
        return None


def _now_s() -> float:
    return time.clock_gettime(_CLOCK)


def _stamp(path: str) -> None:
    """Give the file the time since the boot as that of its last change: that needs no room on the disk."""
    now_ns = time.clock_gettime_ns(_CLOCK)
    os.utime(path, ns=(now_ns, now_ns), follow_symlinks=False)
