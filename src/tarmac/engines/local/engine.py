"""`LocalEngine`: attempts as processes of this machine, which can represent many nodes.

Created in `server/wiring.py`. It stages attempt directories, starts runners in them, and reads their reports;
all its state is in the directories, so that the next server adopts everything.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock

from tarmac.engines.attempts import clearing, staging, supervision, writing
from tarmac.engines.attempts.aggregate_outcome import observation
from tarmac.engines.attempts.files import read_file
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.listing import listed
from tarmac.engines.attempts.reporting import ReportsAttempts
from tarmac.engines.attempts.request import (
    NO_CONTAINER_RULES,
    NO_RULES,
    ArtifactStoring,
    AttemptRequest,
    AttemptSettings,
    render,
)
from tarmac.engines.attempts.view import AttemptView, Views
from tarmac.engines.hosts.container_trial import try_containers
from tarmac.engines.hosts.local import local_host
from tarmac.engines.local import devices, remains, sessions
from tarmac.engines.local.addresses import addressed
from tarmac.engines.local.examining import examined
from tarmac.engines.local.news import NewsBoard
from tarmac.engines.local.nodes import cluster_nodes
from tarmac.engines.local.runners import LocalRunners
from tarmac.model.abilities import FileEntry, KeptImage
from tarmac.model.cluster import Cluster, Node
from tarmac.model.containers import ContainerRules
from tarmac.model.described import NodeCache
from tarmac.model.ends import lost
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import Unavailable
from tarmac.model.leaving import LeaveRequest
from tarmac.model.ports import Observation, ObservedState, WorkerStatus
from tarmac.model.secret import SecretValues, no_secrets
from tarmac.node.attempt.document import Launch, NodeSettings
from tarmac.node.container import keeping
from tarmac.node.container.trial import Trial
from tarmac.node.files.gitrules import GitRules
from tarmac.node.host.warm_parent import OpenFiles, WarmParent
from tarmac.node.kernel import fifo, ports
from tarmac.node.starting import Installation

ABSENT = Observation(state=ObservedState.ABSENT)


class LocalEngine(ReportsAttempts):
    """The engine of this machine, under one tarmac home. At most one at a time uses a home.

    `nodes` are those of its permanent cluster; `python` runs the runners; `keeping` defines how artifacts are
    stored (None: they stay in place), `git` how nodes fetch repositories, `own_packages` that every run has
    packages of its own, `open_files` the limit of open files for runs (None: that of this process). `secrets`
    has the values of those that attempts name. After `close` no runner is started, and running ones continue.
    """

    name = "local"

    def __init__(
        self,
        home: Path,
        nodes: Sequence[Node],
        *,
        machine: devices.Machine | None = None,
        python: str = sys.executable,
        patience: supervision.RunnerTimeouts = supervision.DEFAULT_TIMEOUTS,
        keeping: ArtifactStoring | None = None,
        git: GitRules = NO_RULES,
        containers: ContainerRules = NO_CONTAINER_RULES,
        own_packages: bool = False,
        open_files: OpenFiles | None = None,
        log_limit_bytes: int | None = None,
        secrets: SecretValues = no_secrets,
    ) -> None:
        self._layout = Layout(home.resolve())
        self._nodes = tuple(nodes)
        self._patience = patience
        installation = self._installation = Installation(python)
        notify = str(self._layout.notify)
        self._settings = AttemptSettings(
            node=NodeSettings(sdk=installation.sdk, notify=notify, log_limit_bytes=log_limit_bytes),
            keeping=keeping,
            git=git,
            containers=containers,
            own_packages=own_packages,
        )
        surveyed = self._machine = machine or devices.survey()
        self._described = NodeCache(lambda cluster: cluster_nodes(surveyed, cluster))
        self._views = Views(self._layout)
        self._staging_lock = Lock()
        staging.prepare(self._layout)
        self._warm = WarmParent(installation, open_files=open_files)
        self._runners = LocalRunners(self._warm, secrets)
        self._news = NewsBoard(self._layout.notify)

    def start(self) -> None:
        """Prepare for the first attempt, so that it does not wait for a Python to start."""
        self._warm.start()

    def close(self) -> None:
        """Close all resources; runners continue."""
        self._news.close()
        self._warm.close()

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> AttemptRequest:
        return render(launch, self._layout, self._settings)

    def submit(self, request: AttemptRequest) -> None:
        self._runners.check(request.secrets)
        with self._staging_lock:
            made = staging.stage(request, self._layout)
        view = (
            self._views.add(request.directory, request.document)
            if made
            else self._views.find(request.attempt_id)
        )
        if view is not None:
            with view.lock:
                view.refresh()
                supervision.start(view, self._runners)

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        return {attempt_id: self._observe(attempt_id) for attempt_id in attempt_ids}

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        view = self._views.find(attempt_id)
        if view is None and request.ends:
            view = self._fenced(attempt_id, request)
        if view is None:
            return
        with view.lock:
            view.refresh()
            if all(node.over for node in view.nodes):
                return
            writing.pass_on(view, request)
            if request.ends:
                writing.fence(view)
            writing.wake(view)
        if request.ends:  # if no runner is left to report it
            fifo.ring(str(self._layout.notify), f"{attempt_id}\n".encode())

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:
        return read_file(self._layout, attempt_id, path, offset=offset, limit=limit)

    def files(self, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        return listed(self._layout, attempt_id, path, limit=limit)

    # --- optional abilities ----------------------------------------------------------------------

    def nodes(self) -> Sequence[Node]:
        return self._nodes

    def cluster_nodes(self, cluster: Cluster) -> Sequence[Node]:
        return self._described.nodes(cluster)

    def prepared(self, cluster: Cluster, old: Cluster | None, others: Sequence[Cluster]) -> Cluster:
        return addressed(cluster, old, others)

    def examine(self, cluster: Cluster) -> Sequence[Finding]:  # noqa: ARG002 - this machine stands for all
        return examined(self._layout, self.try_containers())

    def try_containers(self) -> Trial:
        """Try whether runs can start in images on this machine."""
        host = local_host(self._layout.home)
        return try_containers(host, self._installation, self._settings.containers.driver)

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        try:
            return ports.find_free(address, taken)
        except OSError as error:
            raise Unavailable(str(error)) from None

    def subscribe(self, listener: Callable[[str], None]) -> None:
        self._news.subscribe(listener)

    def reap(self, attempt_id: str) -> None:
        view = self._views.find(attempt_id) or self._fenced(attempt_id, None)
        if view is not None:
            with view.lock:
                view.refresh()
                supervision.reap(view, self._runners)
                fifo.ring(str(self._layout.notify), f"{attempt_id}\n".encode())

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        return sessions.open_session(self._installation, self._views.find(attempt_id), worker)

    def remains(self) -> Collection[str]:
        return clearing.remains(self._layout)

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        return clearing.clear(self._layout, run_id, work_days=work_days, log_days=log_days)

    def remove(self, run_id: str) -> None:
        clearing.remove(self._layout, run_id)

    def images(self) -> Sequence[KeptImage]:
        return [KeptImage(node="", **record) for record in keeping.listing(str(self._layout.images))]

    def remove_image(self, image: KeptImage) -> bool:
        return keeping.remove(str(self._layout.images), image.digest) != keeping.IN_USE

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        directory = str(self._layout.images)
        return len(keeping.clear(directory, limit_bytes=limit_bytes, unused_days=unused_days))

    # --- for people ------------------------------------------------------------------------------

    @property
    def note(self) -> str | None:
        """An explanation of this machine's slots, if they are not real."""
        return self._machine.note

    # --- inside ----------------------------------------------------------------------------------

    def _observe(self, attempt_id: str) -> Observation:
        view = self._views.find(attempt_id)
        if view is None:
            return ABSENT
        with view.lock:
            if view.final is None:
                seen = self._look(view)
                if seen.state is not ObservedState.ENDED:
                    return seen
                view.final = seen
            return view.final

    def _look(self, view: AttemptView) -> Observation:
        if view.damage is not None:
            return lost(view.damage)
        view.refresh()
        supervision.supervise(view, self._runners, self._patience)
        over = all(node.over for node in view.nodes)
        seen = observation([node.facts for node in view.nodes], view.leave_request() if over else None)
        if seen.state is ObservedState.ENDED and not view.reaped and any(node.lost for node in view.nodes):
            return Observation(
                state=ObservedState.UNKNOWN, native_state="what a lost runner left does not end"
            )
        return seen if over else replace(seen, released=remains.released(view))

    def _fenced(self, attempt_id: str, request: LeaveRequest | None) -> AttemptView | None:
        """Fence an attempt that was never submitted here; None for an invalid id."""
        directory = self._layout.attempt(attempt_id)
        if directory is None:
            return None
        with self._staging_lock:
            staging.stage_fence(attempt_id, directory, self._layout, request)
        return self._views.find(attempt_id)
