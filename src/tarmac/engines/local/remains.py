"""Detects replicas of a running attempt that have ended without remaining processes: their slots are free.

Called by `LocalHosts` at every poll, with the view's lock held. A worker can forge events, so they are
compared with the actual processes: every child of the runner must be a worker reported as live, or its
sidecar. Processes left by an ended worker become children of the runner: while there is one, its slots are
unknown, and no slots of that node are free.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.model.run import Release
from tarmac.node.attempt import claims
from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs

_LOOKS = 2
"""A process that forks and exits during a scan can be missed by it."""


def released(view: AttemptView) -> tuple[Release, ...]:
    """The replicas without remaining processes; a replica stays released."""
    for node in view.nodes:
        ended = [each for each in _ended(node) if (each.role, each.replica) not in view.released]
        if ended and _is_clear(node, view):
            view.released.update({(each.role, each.replica): each for each in ended})
    return tuple(view.released.values())


def runner_alive(node: NodeView) -> bool:
    """Whether the process that claimed this node is still that process."""
    return node.claim is not None and claims.is_alive(node.claim)


def _ended(node: NodeView) -> Iterator[Release]:
    """The replicas of a node that have ended according to its runner."""
    workers = list(node.workers.values())
    for role, replica in dict.fromkeys((worker.role, worker.replica) for worker in workers):
        ends = [each.ended_at for each in workers if (each.role, each.replica) == (role, replica)]
        known = [at for at in ends if at is not None]
        if len(known) == len(ends):
            yield Release(role=role, replica=replica, at=max(known))


def _is_clear(node: NodeView, view: AttemptView) -> bool:
    """Whether only workers that have not ended live on the node. The end of the runner counts as its end."""
    if node.over:
        return node.facts.state is PartState.ENDED and not node.lost
    if node.claim is None or node.claim.process is None or not runner_alive(node):
        return False
    runner = node.claim.process.pid
    workers = {worker.pid for worker in node.workers.values() if worker.ended_at is None}
    return all(_only(workers, runner, node, view) for _ in range(_LOOKS)) and runner_alive(node)


def _only(workers: set[int | None], runner: int, node: NodeView, view: AttemptView) -> bool:
    """Whether all children of the runner are among these, except its one sidecar."""
    statuses = {pid: found for pid in procfs.pids() if (found := procfs.status(pid)) is not None}
    strange = []
    for pid, found in statuses.items():
        now: procfs.Status | None = found
        if found.parent_pid not in statuses:
            now = procfs.status(pid)  # its parent left or is invisible: it may be the runner's child now
        if now is not None and now.parent_pid == runner and pid not in workers and not now.unreaped:
            strange.append(pid)
    return not strange or (len(strange) == 1 and _is_sidecar(strange[0], node, view))


def _is_sidecar(pid: int, node: NodeView, view: AttemptView) -> bool:
    if not view.sidecar:
        return False
    command = [*view.sidecar, "sync", view.paths.directory, node.node]
    with contextlib.suppress(OSError):
        argv = untrusted.first_bytes(f"/proc/{pid}/cmdline", untrusted.NOTE_BYTES).split(b"\0")
        return argv[: len(command)] == [item.encode() for item in command]
    return False
