"""`LocalEngine`: attempts as processes of this machine, which can represent many nodes.

Created in `server/wiring.py`. At most one at a time uses a tarmac home.
"""

import contextlib
import os
import select
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Thread

from tarmac.engines.attempts import supervision
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import DEFAULT_ATTEMPTS, AttemptSettings
from tarmac.engines.hosts.installing import try_containers
from tarmac.engines.hosts.local import local_host
from tarmac.engines.hosts.placed import PlacedEngine, news_of
from tarmac.engines.local.hosts import LocalHosts
from tarmac.engines.local.nodes import Machine, addressed, cluster_nodes, survey
from tarmac.model.abilities import Pace
from tarmac.model.cluster import Cluster, Node, NodeCache
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import Unavailable
from tarmac.model.secret import SecretValues, no_secrets
from tarmac.node.container.making import Trial
from tarmac.node.host.warm_parent import OpenFiles, WarmParent
from tarmac.node.kernel import sockets
from tarmac.node.starting import Installation

READ_BYTES = 65_536

LEAST_FREE_BYTES = 1 << 30


class NewsBoard:
    """Reads the FIFO at `path` while it is open, and calls `on_news` with each attempt that has news.

    Made by `LocalEngine`.
    """

    def __init__(self, path: Path, on_news: Callable[[str], None]) -> None:
        self._on_news = on_news
        _make_fifo(path)
        # A writing end of our own: without one, the reading end would repeatedly be at its end.
        self._fifo = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._stopped, self._stop = os.pipe2(os.O_CLOEXEC)
        self._thread = Thread(target=self._listen, name="tarmac-news", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop reading; runners continue without a reader."""
        if self._stop < 0:
            return
        os.close(self._stop)
        self._stop = -1
        self._thread.join()
        os.close(self._stopped)
        os.close(self._fifo)

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._fifo, select.POLLIN)
        poll.register(self._stopped, select.POLLIN)
        rest = b""
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._stopped in ready:
                return
            with contextlib.suppress(BlockingIOError):
                *lines, rest = (rest + os.read(self._fifo, READ_BYTES)).split(b"\n")
                for line in dict.fromkeys(lines):
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
        node = attempts.node._replace(sdk=installation.sdk, notify=str(layout.notify))
        settings = replace(attempts, node=node)
        super().__init__(layout, layout, settings, patience=patience, secrets=secrets)
        self._nodes = tuple(nodes)
        self._installation = installation
        surveyed = self._machine = machine or survey()
        self._described = NodeCache(lambda cluster: cluster_nodes(surveyed, cluster))
        self._warm = WarmParent(installation, open_files=open_files)
        self._host = local_host(layout.home)
        self._hosts = LocalHosts(self._host, installation, self._warm, secrets)
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

    def pace(self) -> Pace:
        return Pace()

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        try:
            return sockets.find_free_port(address, taken)
        except OSError as error:
            raise Unavailable(str(error)) from None

    # --- for people ------------------------------------------------------------------------------

    @property
    def note(self) -> str | None:
        """An explanation of this machine's slots, if they are not real."""
        return self._machine.note


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
