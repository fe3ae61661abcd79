"""The one host of the local engine: runners are forked by the warm parent, and inspected in /proc.

Called by `PlacedEngine` and `engines/attempts/supervision.py`. The values of secrets are requested at every
start and never stored: after a crash at any point the next start requests the current values again.

Replicas of a running attempt that have ended without remaining processes release their slots. A worker can
forge events, so they are compared with the actual processes: every child of the runner must be a worker
reported as live, or its sidecar. Processes left by an ended worker become children of the runner: while there
is one, its slots are unknown, and no slots of that node are free.
"""

import contextlib
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.supervision import Life
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.hosts.host import Host
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.progress import WorkerStatus
from tarmac.model.run import Release
from tarmac.model.secret import SecretValues
from tarmac.node.attempt import claims
from tarmac.node.files import secretfiles, untrusted
from tarmac.node.host.warm_parent import WarmParent
from tarmac.node.kernel import procfs, workergroup
from tarmac.node.session import frames
from tarmac.node.starting import Installation
from tarmac.node.wire.frames import pack_document

LAST_WORD_S = 0.05
"""How long to wait once for the exit of a runner that has reported its end: it takes a millisecond."""

_LOOKS = 2
"""A process that forks and exits during a scan can be missed by it."""


class LocalHosts:
    """This machine, which stands for all nodes: reports are read in place."""

    def __init__(
        self, host: Host, installation: Installation, warm: WarmParent, secrets: SecretValues
    ) -> None:
        self.host = host
        self._installation = installation
        self._warm = warm
        self._secrets = secrets

    # --- runners ---------------------------------------------------------------------------------

    def reserve(self, view: AttemptView) -> None:
        """Do nothing: no others use the nodes."""

    def start_all(self, view: AttemptView, nodes: Sequence[NodeView]) -> None:
        for node in nodes:
            self.start(view, node)

    def start(self, view: AttemptView, node: NodeView) -> None:
        values = self._secrets(view.secrets) if view.secrets else {}
        try:
            self._warm.start_runner(str(view.directory), node.node, values)
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        except OSError as error:
            raise Unavailable(error.strerror or str(error)) from None

    def life(self, view: AttemptView, node: NodeView) -> Life:  # noqa: ARG002 - this machine is always reached
        if runner_alive(node):
            return Life.ALIVE
        return Life.DEAD if node.claim is None or _of_this_boot(node) else Life.RESTARTED

    def await_leaving(self, node: NodeView) -> None:
        if node.claim is not None:
            claims.wait_for_end(node.claim, LAST_WORD_S)

    def end(self, view: AttemptView, node: NodeView) -> None:  # noqa: ARG002
        if node.claim is not None:
            claims.end(node.claim)

    def fence(self, view: AttemptView) -> None:
        writing.fence(view)

    def end_orphans(self, view: AttemptView) -> bool:
        """End the attempt's processes after all runners are gone, because all its nodes share one token."""
        if any(node.claim is None or _of_this_boot(node) for node in view.nodes):
            try:
                claims.end_orphans(view.token)
            except TimeoutError:
                return False  # a process has not ended yet: the next poll tries again
            workergroup.remove_left(view.attempt_id)
        if view.secrets:  # no process reads the files that a lost runner left
            for node in view.nodes:
                secretfiles.remove(view.token, node.node, node.paths.directory)
        return True

    # --- attempts --------------------------------------------------------------------------------

    def refresh(self, views: Sequence[AttemptView]) -> None:
        """Do nothing: reports are read in place."""

    def exchange(self, view: AttemptView) -> None:
        """Do nothing: all nodes share the directory."""

    def pass_on(self, view: AttemptView) -> None:
        writing.wake(view)

    def released(self, view: AttemptView) -> Sequence[Release]:
        """The replicas without remaining processes; a replica stays released."""
        for node in view.nodes:
            ended = [each for each in _ended(node) if (each.role, each.replica) not in view.released]
            if ended and _is_clear(node, view):
                view.released.update({(each.role, each.replica): each for each in ended})
        return tuple(view.released.values())

    def forget(self, view: AttemptView) -> None:
        """Do nothing: an attempt holds nothing here."""

    def open_session(self, view: AttemptView, worker: WorkerStatus) -> int:
        near, far = socket.socketpair()
        try:
            self._installation.start_session(far)
            near.sendall(pack_document(frames.WORKER, pid=worker.pid, token=view.token))
        except (OSError, subprocess.SubprocessError) as error:
            near.close()
            raise Unavailable(f"the session cannot be started: {error}") from None
        finally:
            far.close()
        return near.detach()

    def with_file(self, view: AttemptView | None, path: str) -> Host:  # noqa: ARG002 - it has all files
        return self.host

    def reachable(self) -> Mapping[str, Host]:
        return {"": self.host}


def _of_this_boot(node: NodeView) -> bool:
    """Whether it was claimed since this machine's boot: if not, no process of it can be left."""
    return node.claim is not None and node.claim.boot_id == procfs.boot_id()


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
