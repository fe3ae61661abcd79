"""The claim: the owner of a node's part of an attempt. Called by the runner and by engines.

The process that creates the file owns the part permanently: an attempt can start at most once on a node. The
claim is written under another name and then linked into place, so no reader sees an incomplete claim.

An attempt may end without a record if its runner or its machine was killed. Then no runner listed its torn
checkpoint files or stored its last changes: the next attempt that uses its directories does both. The hooks
`artifacts` and `pre_post_commands` and the sidecar ask for that (`lost_before`).

The remaining processes of a lost runner are found by the token that every descendant carries. The search
misses a process that cleared its environment; a living runner would have found it among its descendants.
"""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from functools import lru_cache, partial
from typing import NamedTuple, Optional, Sequence

from tarmac.node.attempt import records
from tarmac.node.attempt.protocol import TOKEN_VARIABLE, AttemptPaths, NodePaths
from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs, signals

_FIRST_BYTES = 64 * 1024
_LAST_BYTES = 4096
_STARTED, _ENDED = b'"worker_started"', b'"ended"'

END_TIMEOUT_S = 5.0
_LOOK_AGAIN_S = 0.001


class Claim(NamedTuple):
    """The claiming process; or the part is `fenced`, and no runner may start it.

    `name` is the process's name while it serves this claim: afterwards it may serve another.
    """

    token: str = ""
    process: Optional[procfs.Process] = None
    boot_id: str = ""
    name: str = ""
    fenced: bool = False


_read = records.reader(Claim)


def take(node: NodePaths, token: str, *, pid: int, name: str = "") -> bool:
    """Claim a node's part for this process, whose pid the machine knows; False if it is already taken."""
    process = procfs.Process(pid, _own_start(os.getpid()))
    return _create(node, Claim(token, process, procfs.boot_id(), name))


@lru_cache(maxsize=1)
def _own_start(pid: int) -> int:
    own = procfs.status(pid)
    return own.process.start_ticks if own else 0


def fence(node: NodePaths) -> bool:
    """Prevent any runner from starting this part; False if it is already claimed or fenced."""
    return _create(node, Claim(fenced=True))


def read(node: NodePaths) -> Optional[Claim]:
    """The claim, or None if there is none yet. Raises OSError or ValueError for a damaged one."""
    try:
        claim: Claim = _read(untrusted.read_object(node.claim))
    except FileNotFoundError:
        return None
    if not claim.fenced and (claim.process is None or claim.process.pid <= 0):
        raise ValueError("it names no process")
    return claim


def _create(node: NodePaths, claim: Claim) -> bool:
    untrusted.make_directory(node.directory)
    try:
        untrusted.publish(node.claim, json.dumps(records.to_json(claim)).encode())
    except FileExistsError:
        return False
    return True


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
            lost = [(part.heartbeat, part.events) for part in started if not has_ended(part)]
            signs = [max(os.lstat(sign).st_mtime for sign in part if os.path.lexists(sign)) for part in lost]
            return Lost(earlier, min(signs)) if signs else None
    return None


def has_ended(node: NodePaths) -> bool:
    """Whether a runner has written the event `ended`."""
    lines = untrusted.last_bytes(node.events, _LAST_BYTES)[0].split(b"\n")
    return len(lines) > 1 and _ENDED in lines[-2]


def _has_started(node: NodePaths) -> bool:
    with suppress(OSError):
        return _STARTED in untrusted.read_part(node.events, 0, _FIRST_BYTES)
    return False


def wait_for_end(claim: Claim, patience_s: float) -> bool:
    """Whether the process of a claim has ended, or no longer serves it, within `patience_s`."""
    deadline = time.monotonic() + patience_s
    while is_alive(claim):
        if time.monotonic() >= deadline:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True


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
    if claim.process is not None and is_alive(claim) and signals.send(claim.process, signal.SIGKILL):
        signals.wait_for_end(claim.process, END_TIMEOUT_S)


def end_orphans(token: str, *, timeout_s: float = 5.0) -> int:
    """End every process that carries the attempt's token, and wait for it; returns their number.

    Repeats until none is left, because one may fork during the search. Raises TimeoutError if some remain
    after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    ended: set[procfs.Process] = set()
    while found := find_orphans(token):
        for process in found:
            try:
                signals.send(process, signal.SIGKILL, still=partial(_carries, process.pid, token))
            except PermissionError:
                continue  # its user changed; the deadline decides
            ended.add(process)
        for process in found:
            signals.wait_for_end(process, deadline - time.monotonic())
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {[process.pid for process in found]} do not end")
    return len(ended)


def find_orphans(token: str) -> list[procfs.Process]:
    """All other processes whose environment carries the token."""
    found = [procfs.status(pid) for pid in procfs.pids() if pid != os.getpid() and _carries(pid, token)]
    return [item.process for item in found if item is not None and not item.unreaped]


def _carries(pid: int, token: str) -> bool:
    with suppress(OSError):  # ended, or another user's
        return f"{TOKEN_VARIABLE}={token}".encode() in procfs.environment(pid).split(b"\0")
    return False
