"""`RayEngine`: attempts on the nodes of a Ray cluster, placed by tarmac's own scheduler.

Made by `RayKind`, one for each cluster. Ray starts an agent on each node and reserves nodes; all other calls
go directly to the agents. State that must outlive the server is on the nodes, and in the attempt directories
below `copies` on this machine, where their reports are copied.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import wait
from contextlib import suppress
from pathlib import Path
from threading import Lock

from tarmac.engines.attempts import clearing, staging, supervision, writing
from tarmac.engines.attempts.aggregate_outcome import observation
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.listing import no_directory
from tarmac.engines.attempts.reporting import ReportsAttempts
from tarmac.engines.attempts.request import (
    NO_CONTAINER_RULES,
    NO_RULES,
    AttemptRequest,
    AttemptSettings,
    render,
)
from tarmac.engines.attempts.view import AttemptView, Views
from tarmac.engines.hosts import installing
from tarmac.engines.hosts.container_trial import try_containers
from tarmac.engines.hosts.installing import Sidecar
from tarmac.engines.hosts.relaying import AnswerRequest
from tarmac.engines.hosts.supplies import Forward
from tarmac.engines.ray import sessions
from tarmac.engines.ray.examining import examined
from tarmac.engines.ray.leftovers import Leftovers
from tarmac.engines.ray.membership import Membership
from tarmac.engines.ray.node import RayNode, Travels
from tarmac.engines.ray.nodes import RayNodes
from tarmac.engines.ray.reading import place_of
from tarmac.engines.ray.relay import Relay
from tarmac.engines.ray.reservations import Reservations
from tarmac.engines.ray.runners import RayRunners
from tarmac.engines.ray.settings import RaySettings
from tarmac.model.abilities import FileEntry, KeptImage, Pace
from tarmac.model.cluster import Cluster, Node
from tarmac.model.containers import ContainerRules
from tarmac.model.ends import lost
from tarmac.model.engine_kinds import Finding
from tarmac.model.errors import NotFound, Refused, Unavailable
from tarmac.model.leaving import LeaveRequest
from tarmac.model.ports import Observation, ObservedState, StreamsCode, WorkerStatus
from tarmac.model.secret import SecretValues, no_secrets
from tarmac.node.attempt.document import Launch, NodeSettings
from tarmac.node.files.gitrules import GitRules
from tarmac.node.starting import NODE_DIRECTORY, Installation

ABSENT = Observation(state=ObservedState.ABSENT)

OBSERVE_S = 1.0
LOOK_WAIT_S = 6.0
"""How long one poll waits for the slowest node."""


class RayEngine(ReportsAttempts):
    """The engine of one cluster. `copies` is the directory of this machine for reports of attempts.

    `secrets` has the values of those that attempts name; `sidecar` stores artifacts (None: they stay in
    place), and if its store is a directory here, `artifacts` answers it. `forward` is reached from the nodes.
    `python` runs the runners (None: that of the agents).
    """

    name = "ray"

    def __init__(
        self,
        cluster: str,
        settings: RaySettings,
        membership: Membership,
        *,
        copies: Path,
        code: StreamsCode | None = None,
        git: GitRules = NO_RULES,
        containers: ContainerRules = NO_CONTAINER_RULES,
        own_packages: bool = False,
        log_limit_bytes: int | None = None,
        secrets: SecretValues = no_secrets,
        sidecar: Sidecar | None = None,
        artifacts: AnswerRequest | None = None,
        forward: Forward | None = None,
        patience: supervision.RunnerTimeouts = supervision.DEFAULT_TIMEOUTS,
        python: str | None = None,
    ) -> None:
        self._settings = settings
        self._membership = membership
        self._layout = Layout(settings.directory)
        self._seen = Layout(copies.resolve())
        self._patience = patience
        files = installing.collect((NODE_DIRECTORY, *(sidecar.packages if sidecar is not None else ())))
        self._version = settings.directory / "node" / installing.version_of(files)
        package = str(self._version / installing.RUNNER)
        self._installation = Installation(settings.python, package)
        self._attempts = AttemptSettings(
            node=_node_settings(settings, self._installation.sdk, log_limit_bytes),
            keeping=sidecar.at(self._installation, relay=settings.directory) if sidecar is not None else None,
            git=git,
            containers=containers,
            own_packages=own_packages,
        )
        self._lock = Lock()
        self._listeners: list[Callable[[str], None]] = []
        self._views = Views(self._seen)
        staging.prepare(self._seen)
        answer = artifacts if sidecar is not None and sidecar.is_directory else None
        travels = Travels(answer=answer, forward=forward, package=package, files=files, python=python)
        self._nodes = RayNodes(
            cluster,
            settings,
            membership,
            seen=self._seen,
            travels=travels,
            on_news=_listener_of(weakref.ref(self)),
        )
        self._reservations = Reservations(self._nodes, membership)
        self._travels = travels
        self._runners = RayRunners(self._nodes, self._layout, travels=travels, code=code, secrets=secrets)
        leftovers = Leftovers(self._nodes, self._views, self._runners)
        self._nodes.after_look = (leftovers.end, self._reservations.release_idle)
        self._relay = Relay(self._runners.node, self._runners.directory)

    def close(self) -> None:
        """Disconnect from the cluster; runs continue."""
        self._reservations.close()
        self._nodes.close()

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> AttemptRequest:
        return render(launch, self._layout, self._attempts)

    def submit(self, request: AttemptRequest) -> None:
        self._runners.check(request.secrets)
        directory = self._seen_directory(request.attempt_id)
        with self._lock:
            made = staging.stage(request, self._seen, directory)
        view = self._views.add(directory, request.document) if made else self._views.find(request.attempt_id)
        if view is None:
            return
        with view.lock:
            if not made:
                self._look_at_nodes([view])
                view.refresh()
            if view.nodes and view.is_to_end:
                self._runners.fence(view)
            elif view.nodes:
                self._reservations.reserve(view.attempt_id, [node.address for node in request.document.nodes])
                self._runners.start_all(view)

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        found: dict[str, Observation] = {}
        open_views: dict[str, AttemptView] = {}
        for attempt_id in attempt_ids:
            view = self._views.find(attempt_id)
            if view is None:
                found[attempt_id] = ABSENT
            elif view.final is not None:
                found[attempt_id] = view.final
            else:
                open_views[attempt_id] = view
        self._look_at_nodes(list(open_views.values()))
        for attempt_id, view in open_views.items():
            found[attempt_id] = self._observe(view)
        return found

    def request_leave(self, attempt_id: str, ask: LeaveRequest) -> None:
        view = self._views.find(attempt_id)
        if view is None and ask.ends:
            view = self._fenced(attempt_id, ask)
        if view is None:
            return
        with view.lock:
            self._look_at_nodes([view])
            view.refresh()
            if all(node.over for node in view.nodes):
                return
            writing.pass_on(view, ask)
            if ask.ends:
                self._runners.fence(view)
            self._relay.pass_ask_on(view)
        self._tell(attempt_id)

    def read(self, attempt_id: str, path: str, *, offset: int = 0, limit: int = 65536) -> bytes:
        view, directory = self._views.find(attempt_id), self._layout.attempt(attempt_id)
        content = None
        if view is not None and directory is not None and view.nodes:
            place = self._runners.node(view, place_of(view, path))
            content = place.host.read(directory, path, offset=offset, limit=limit)
        if content is None:
            raise NotFound(f"attempt {attempt_id} has no file {path!r}")
        return content

    def files(self, attempt_id: str, path: str, *, limit: int) -> Sequence[FileEntry]:
        view, directory = self._views.find(attempt_id), self._layout.attempt(attempt_id)
        found = None
        if view is not None and directory is not None and view.nodes:
            place = self._runners.node(view, place_of(view, path))
            found = place.host.files(directory, path, limit=limit)
        if found is None:
            raise no_directory(attempt_id, path)
        return found

    # --- optional abilities ----------------------------------------------------------------------

    def nodes(self) -> Sequence[Node]:
        return self._nodes.offer()

    def knows_nodes(self) -> bool:
        return self._nodes.known()

    def free_port(self, address: str, taken: frozenset[int]) -> int:
        try:
            return self._nodes.at(address).ports.take(taken)
        except OSError as error:
            raise Unavailable(str(error)) from None

    def subscribe(self, listener: Callable[[str], None]) -> None:
        with self._lock:
            self._listeners.append(listener)

    def pace(self) -> Pace:
        return Pace(observe_s=OBSERVE_S, idle_s=OBSERVE_S, read_s=0.1, rest_s=1.0, longest_rest_s=5.0)

    def examine(self, cluster: Cluster) -> Sequence[Finding]:  # noqa: ARG002 - there is one
        driver = self._attempts.containers.driver
        return examined(
            self._settings,
            self._membership,
            self._nodes,
            try_containers=lambda host: try_containers(host, self._installation, driver),
        )

    def reap(self, attempt_id: str) -> None:
        view = self._views.find(attempt_id) or self._fenced(attempt_id, None)
        if view is not None:
            with view.lock, suppress(Unavailable):  # the runner of an unreachable node ends its work itself
                self._look_at_nodes([view])
                view.refresh()
                supervision.reap(view, self._runners)
            self._tell(attempt_id)

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        view = self._views.find(attempt_id)
        if view is None:
            raise Refused("the worker has not started")
        place = self._runners.node(view, worker.node)
        return sessions.open_session(place, self._travels, view, worker)

    def remains(self) -> Collection[str]:
        found = set(clearing.remains(self._seen))
        for node in self._up():
            found.update(node.host.remains())
        return found

    def clear(self, run_id: str, *, work_days: float | None, log_days: float | None) -> int:
        counts = [node.host.clear(run_id, work_days=work_days, log_days=log_days) for node in self._up()]
        clearing.clear(self._seen, run_id, work_days=work_days, log_days=log_days)
        return max(counts, default=0)

    def remove(self, run_id: str) -> None:
        for node in self._up():
            node.host.remove(run_id)
        clearing.remove(self._seen, run_id)

    def clear_copies(self, live: Collection[str], *, unused_days: float) -> int:
        return sum(
            node.host.clear_copies(live, unused_days=unused_days, version=self._version.name)
            for node in self._up()
        )

    def images(self) -> Sequence[KeptImage]:
        return [image for node in self._up() for image in node.host.images(node.name)]

    def remove_image(self, image: KeptImage) -> bool:
        return all(node.host.remove_image(image.digest) for node in self._up() if node.name == image.node)

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        return sum(
            node.host.clear_images(limit_bytes=limit_bytes, unused_days=unused_days) for node in self._up()
        )

    # --- inside ----------------------------------------------------------------------------------

    def _up(self) -> list[RayNode]:
        return [node for node in self._nodes.all() if node.up]

    def _tell(self, attempt_id: str) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(attempt_id)

    def _seen_directory(self, attempt_id: str) -> Path:
        directory = self._seen.attempt(attempt_id)
        assert directory is not None, "a request has a directory"
        return directory

    def _look_at_nodes(self, views: Sequence[AttemptView]) -> None:
        """Copy the reports of these attempts from all their nodes at once."""
        by_node: dict[str, tuple[RayNode, dict[str, tuple[AttemptView, str]]]] = {}
        for view in views:
            for part in view.nodes:
                if not part.over:
                    place = self._runners.node(view, part.node)
                    parts = by_node.setdefault(place.address, (place, {}))[1]
                    parts[view.attempt_id] = view, part.node
        looks = list(by_node.values())
        if len(looks) == 1:
            self._look_at(*looks[0])
        elif looks:
            wait([self._nodes.pool.submit(self._look_at, *look) for look in looks], LOOK_WAIT_S)

    def _look_at(self, place: RayNode, parts: Mapping[str, tuple[AttemptView, str]]) -> None:
        """Ask which runners live before copying reports: a runner dead by then has written everything."""
        names = {attempt_id: node for attempt_id, (_, node) in parts.items()}
        try:
            lives = place.lives(names)
            place.refresh(names)
        except (Unavailable, OSError):
            lives = dict.fromkeys(names, supervision.Life.SILENT)
        for attempt_id, (view, node) in parts.items():
            self._runners.note_lives(view, node, lives[attempt_id])

    def _observe(self, view: AttemptView) -> Observation:
        with view.lock:
            if view.final is None:
                seen = self._look(view)
                if view.nodes:
                    self._reservations.note(view.attempt_id, self._runners.addresses(view))
                if seen.state is not ObservedState.ENDED:
                    return seen
                view.final = seen
                self._reservations.forget(view.attempt_id)
                self._relay.forget(view)
                self._runners.forget(view)
            return view.final

    def _look(self, view: AttemptView) -> Observation:
        if view.damage is not None:
            return lost(view.damage)
        view.refresh()
        supervision.supervise(view, self._runners, self._patience)
        with suppress(Unavailable):  # the next poll tries again
            self._relay.pass_ask_on(view)
        self._relay.carry(view)
        over = all(node.over for node in view.nodes)
        seen = observation([node.facts for node in view.nodes], view.leave_request() if over else None)
        if seen.state is ObservedState.ENDED and not view.reaped and any(node.lost for node in view.nodes):
            return Observation(
                state=ObservedState.UNKNOWN, native_state="what a lost runner left does not end"
            )
        return seen

    def _fenced(self, attempt_id: str, ask: LeaveRequest | None) -> AttemptView | None:
        """Fence an attempt that was never submitted here; None for an invalid id."""
        directory = self._seen.attempt(attempt_id)
        if directory is None:
            return None
        with self._lock:
            staging.stage_fence(attempt_id, directory, self._seen, ask)
        return self._views.find(attempt_id)


def _node_settings(settings: RaySettings, sdk: str, log_limit_bytes: int | None) -> NodeSettings:
    return NodeSettings(
        sdk=sdk,
        notify=str(Layout(settings.directory).notify),
        shared_directory=False,
        lease_s=settings.lease_s,
        contact=str(settings.directory),
        log_limit_bytes=log_limit_bytes,
    )


def _listener_of(engine: weakref.ref[RayEngine]) -> Callable[[str], None]:
    """A listener that passes news on while the engine exists: its links' threads must not keep it alive."""

    def pass_on(attempt_id: str) -> None:
        there = engine()
        if there is not None:
            there._tell(attempt_id)

    return pass_on
