"""`LocalEngine`: attempts as processes of this machine, which can represent many nodes.

Created in `server/wiring.py`. At most one at a time uses a tarmac home. Its one host is `LocalHosts`: runners
are forked by the warm parent, and inspected in /proc. The values of secrets are requested at every start and
never stored: after a crash at any point the next start requests the current values again.

Replicas of a running attempt that have ended without remaining processes release their slots. A worker can
forge events, so they are compared with the actual processes: every child of the runner must be a worker
reported as live, or its sidecar. Processes left by an ended worker become children of the runner: while there
is one, its slots are unknown, and no slots of that node are free.
"""

import contextlib
import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

from tarmac.engines.attempts import supervision, writing
from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import DEFAULT_ATTEMPTS, AttemptRequest, AttemptSettings
from tarmac.engines.attempts.supervision import Life
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.hosts.host import Host, local_host
from tarmac.engines.hosts.installing import try_containers
from tarmac.engines.hosts.placed import PlacedEngine, news_of
from tarmac.engines.hosts.system_user import check_system_user
from tarmac.engines.local.nodes import Machine, addressed, cluster_nodes, survey
from tarmac.model.abilities import Pace
from tarmac.model.cluster import Cluster, Finding, Node, NodeCache
from tarmac.model.errors import TarmacError, Unavailable
from tarmac.model.progress import WorkerStatus
from tarmac.model.run import Release
from tarmac.model.secret import SecretValues, no_secrets
from tarmac.node.attempt import claims
from tarmac.node.attempt.document import Launch
from tarmac.node.container.making import Trial
from tarmac.node.files import secretfiles, untrusted
from tarmac.node.host.warm_parent import OpenFiles, Start, WarmParent
from tarmac.node.kernel import procfs, sockets, system_users, workergroup
from tarmac.node.starting import Installation

READ_BYTES = 65_536

LEAST_FREE_BYTES = 1 << 30


class NewsBoard:
    """Reads the FIFO at `path` while it is open, and calls `on_news` with each attempt that has news.

    Made by `LocalEngine`.
    """

    def __init__(self, path: Path, on_news: Callable[[str], None]) -> None:
        self._on_news = on_news
        self._closed = False
        _make_fifo(path)
        # Open for writing as well: without a writer, reading would repeatedly be at its end.
        self._fifo = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        self._thread = Thread(target=self._listen, name="tarmac-news", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading; runners continue without a reader."""
        if self._closed:
            return
        self._closed = True
        os.write(self._fifo, b"\n")
        self._thread.join()
        os.close(self._fifo)

    def _listen(self) -> None:
        rest = b""
        while not self._closed:
            *lines, rest = (rest + os.read(self._fifo, READ_BYTES)).split(b"\n")
            for line in filter(None, dict.fromkeys(lines)):
                self._on_news(line.decode(errors="replace"))


def _make_fifo(path: Path) -> None:
    try:
        if stat.S_ISFIFO(path.lstat().st_mode):
            return
        path.unlink()
    except FileNotFoundError:
        pass
    os.mkfifo(path, 0o600)


class LocalEngine(PlacedEngine):
    """The engine of this machine, under one tarmac home. At most one at a time uses a home.

    `nodes` are those of its permanent cluster; `python` runs the runners; `attempts` are the settings of
    each, `open_files` the limit of open files for runs (None: that of this process). `secrets` has the values
    of those that attempts name. After `close` no runner is started, and running ones continue.
    """

    name = "local"

    def __init__(
        self,
        home: Path,
        nodes: Sequence[Node],
        *,
        machine: Machine | None = None,
        python: str = sys.executable,
        patience: supervision.RunnerTimeouts = supervision.DEFAULT_TIMEOUTS,
        attempts: AttemptSettings = DEFAULT_ATTEMPTS,
        open_files: OpenFiles | None = None,
        secrets: SecretValues = no_secrets,
    ) -> None:
        layout, installation = Layout(home.resolve()), Installation(python)
        node = attempts.node._replace(
            sdk=installation.sdk, notify=str(layout.notify), spare=str(layout.staging)
        )
        settings = replace(attempts, node=node)
        super().__init__(layout, layout, settings, patience=patience, secrets=secrets)
        self._nodes = tuple(nodes)
        self._installation = installation
        surveyed = machine or survey()
        self.note = surveyed.note
        """An explanation of this machine's slots, if they are not real."""
        self._described = NodeCache(lambda cluster: cluster_nodes(surveyed, cluster))
        self._warm = WarmParent(installation, open_files=open_files)
        self._host = local_host(layout.home)
        self._hosts: LocalHosts = LocalHosts(self._host, installation, self._warm, secrets)
        self._news = NewsBoard(layout.notify, news_of(self))

    def start(self) -> None:
        """Prepare for the first attempt, so that it does not wait for a Python to start."""
        self._warm.start()

    def close(self) -> None:
        """Close all resources; runners continue."""
        self._news.close()
        self._warm.close()

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def knows_nodes(self) -> bool:
        return True

    def cluster_nodes(self, cluster: Cluster) -> Sequence[Node]:
        return self._described.nodes(cluster)

    def prepared(self, cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:
        return addressed(cluster, old, others)

    def examine(self, cluster: Cluster) -> Sequence[Finding]:  # noqa: ARG002 - this machine stands for all
        return examined(self._layout.home, self.try_containers())

    def try_containers(self) -> Trial:
        """Try whether runs can start in images on this machine."""
        return try_containers(self._host, self._installation, self._settings.containers.driver)

    def render(self, launch: Launch) -> AttemptRequest:
        if launch.runs_as is not None and system_users.is_own(launch.runs_as.name):
            launch = launch._replace(runs_as=None)
        return super().render(launch)

    def submit_all(self, requests: Sequence[AttemptRequest]) -> Sequence[TarmacError | None]:
        problems: list[TarmacError | None] = [None] * len(requests)
        starts: list[tuple[int, Start]] = []
        for number, request in enumerate(requests):
            try:
                view = self._made(request)
                with view.lock:
                    nodes = supervision.begin(view, self._hosts)
                    starts += [(number, start) for start in self._hosts.starts(view, nodes)]
            except TarmacError as error:
                problems[number] = error
        for (number, _), problem in zip(
            starts, self._hosts.begin([start for _, start in starts]), strict=True
        ):
            problems[number] = problem or problems[number]
        return problems

    def check_system_user(self, name: str) -> None:
        check_system_user(name, self._settings.least_uid)

    def pace(self) -> Pace:
        return Pace()

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        try:
            return sockets.find_free_port(address, taken)
        except OSError as error:
            raise Unavailable(str(error)) from None


def examined(home: Path, containers: Trial) -> Sequence[Finding]:
    """Findings: whether the home is writable, whether it has space, and whether runs can start in images."""
    problem = None
    try:
        tempfile.TemporaryFile(dir=home).close()
    except OSError as error:
        problem = f"{home}: {error.strerror}"
    free_bytes = shutil.disk_usage(home).free
    free, enough = f"{free_bytes / 2**30:.1f} GiB free", free_bytes >= LEAST_FREE_BYTES
    return [
        Finding(what="home", ok=problem is None, text=problem or f"{home} can be written"),
        Finding(what="disk", ok=enough, text=free if enough else f"{free}: checkpoints and logs need more"),
        Finding(what="images", ok=containers.works, text=containers.text),
    ]


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
        for problem in filter(None, self.begin(self.starts(view, nodes))):
            raise problem

    def starts(self, view: AttemptView, nodes: Sequence[NodeView]) -> list[Start]:
        """The requests to start the runners of these nodes."""
        values = self._secrets(view.secrets) if view.secrets else {}
        return [Start(str(view.directory), node.node, values) for node in nodes]

    def begin(self, starts: Sequence[Start]) -> list[TarmacError | None]:
        """Start these runners by one request; for each why that was impossible."""
        return [
            None if problem is None else Unavailable(problem.strerror or str(problem))
            for problem in self._warm.start_runners(starts)
        ]

    def start(self, view: AttemptView, node: NodeView) -> None:
        self.start_all(view, [node])

    def life(self, view: AttemptView, node: NodeView) -> Life:  # noqa: ARG002 - this machine is always reached
        patience_s = LAST_WORD_S if node.done and not node.awaited else 0.0
        node.awaited = node.done
        if node.claim is not None and not claims.wait_for_end(node.claim, patience_s):
            return Life.ALIVE
        return Life.DEAD if node.claim is None or _of_this_boot(node) else Life.RESTARTED

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

    def open_session(self, view: AttemptView, worker: WorkerStatus) -> socket.socket:  # noqa: ARG002
        near, far = socket.socketpair()
        try:
            self._installation.start_session(far)
        except (OSError, subprocess.SubprocessError) as error:
            near.close()
            raise Unavailable(f"the session cannot be started: {error}") from None
        finally:
            far.close()
        return near

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
        argv = untrusted.read_part(f"/proc/{pid}/cmdline", 0, untrusted.NOTE_BYTES).split(b"\0")
        return argv[: len(command)] == [item.encode() for item in command]
    return False
