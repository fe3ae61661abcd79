"""`PlacedEngine`: attempts on hosts, placed by tarmac's own scheduler. Inherited by the local and Ray engine.

It creates the directory of an attempt, has its hosts start the runners, and derives the state of the attempt
from their reports. The only state that must outlive the server is in the directories and on the hosts, so
that the next server adopts everything.
"""

import socket
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tarmac.engines.attempts import supervision, writing
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptRequest, AttemptSettings, render
from tarmac.engines.attempts.supervision import Runners
from tarmac.engines.attempts.view import AttemptView
from tarmac.engines.hosts.engine import AttemptEngine
from tarmac.engines.hosts.host import Host
from tarmac.model.codec import replace
from tarmac.model.errors import Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.loss import lost
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import WorkerStatus
from tarmac.model.run import Release
from tarmac.model.secret import SecretValues
from tarmac.node.attempt.document import Launch
from tarmac.node.files import staging


class PlacedHosts(Runners, Protocol):
    """The hosts of one engine. Methods with a view are called with its lock held, except `refresh`.

    An attempt's directory on this machine (`AttemptView.directory`) is either its only one, or a copy of
    those on its hosts. Every effect may be repeated after a crash at any point.
    """

    def refresh(self, views: Sequence[AttemptView]) -> None:
        """Make the reports of these attempts readable in their directories on this machine.

        A host that cannot be reached changes nothing but the answer of `life`.
        """

    def exchange(self, view: AttemptView) -> None:
        """After each poll of a live attempt: carry what its hosts have for one another. Raises nothing."""

    def pass_on(self, view: AttemptView) -> None:
        """Bring the attempt's request to leave to its runners, and wake them.

        Raises Unavailable if one was not reached; the caller tries again.
        """

    def released(self, view: AttemptView) -> Sequence[Release]:
        """The replicas of a live attempt that are known to have no process left; they stay released."""

    def forget(self, view: AttemptView) -> None:
        """Release what an ended attempt holds here; idempotent."""

    def open_session(self, view: AttemptView, worker: WorkerStatus) -> socket.socket:
        """As `AttemptEngine` defines."""

    def with_file(self, view: AttemptView | None, path: str) -> Host | None:
        """The host that has this file of an attempt; None without one. Needs no lock."""

    def reachable(self) -> Mapping[str, Host]:
        """The hosts that can be reached now, by the name of the node; "" for one that stands for all."""


LEFT_BEHIND = Observation(state=ObservedState.UNKNOWN, native_state="what a lost runner left does not end")


class PlacedEngine(AttemptEngine):
    """The port `Engine` over `_hosts`, which the inheriting class sets.

    `layout` has the directories of attempts on the hosts, `seen` those on this machine. `secrets` has the
    values of those that attempts name.
    """

    _hosts: PlacedHosts

    def __init__(
        self,
        layout: Layout,
        seen: Layout,
        settings: AttemptSettings,
        *,
        patience: supervision.RunnerTimeouts,
        secrets: SecretValues,
    ) -> None:
        super().__init__(seen)
        self._layout = layout
        self._settings = settings
        self._patience = patience
        self._secrets = secrets
        staging.prepare(str(seen.staging))

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> AttemptRequest:
        return render(launch, self._layout, self._settings)

    def submit(self, request: AttemptRequest) -> None:
        view = self._made(request)
        with view.lock:
            self._hosts.start_all(view, supervision.begin(view, self._hosts))

    def _made(self, request: AttemptRequest) -> AttemptView:
        """The view of the attempt's directory, which is made unless it exists."""
        if request.secrets:
            self._secrets(request.secrets)  # all must be readable
        directory = self._seen.attempt(request.attempt_id)
        assert directory is not None, "a request has a directory"
        made = self._stage(request.attempt_id, directory, writing.attempt_files(request.document))
        view = None if made else self._views.find(request.attempt_id)
        if view is None:
            return self._views.add(directory, request.document)
        with view.lock:
            self._refresh(view)
        return view

    # --- for the verbs of every engine -----------------------------------------------------------

    def _observe_open(self, views: Mapping[str, AttemptView]) -> Mapping[str, Observation]:
        self._hosts.refresh(list(views.values()))
        return {attempt_id: self._observe(view) for attempt_id, view in views.items()}

    def _make_directory(self, directory: Path, files: Mapping[str, bytes]) -> bool:
        return staging.make_directory(str(directory), files, staging=str(self._seen.staging))

    def _leave(self, view: AttemptView, request: LeaveRequest) -> bool:
        writing.pass_on(view, request)
        if request.ends:
            self._hosts.fence(view)
        self._hosts.pass_on(view)
        return False

    def _end(self, view: AttemptView) -> None:
        try:
            supervision.reap(view, self._hosts)
        except Unavailable:
            if self._settings.node.lease_s is None:
                raise  # with a lease the runner of an unreachable host ends its work itself

    def _open_session(self, view: AttemptView, worker: WorkerStatus) -> socket.socket:
        return self._hosts.open_session(view, worker)

    def _reachable(self) -> Mapping[str, Host]:
        return self._hosts.reachable()

    def _host_with(self, attempt_id: str, path: str) -> Host | None:
        return self._hosts.with_file(self._views.find(attempt_id), path)

    def _refresh(self, view: AttemptView) -> None:
        self._hosts.refresh([view])
        view.refresh()

    # --- inside ----------------------------------------------------------------------------------

    def _observe(self, view: AttemptView) -> Observation:
        with view.lock:
            if view.final is None:
                seen = self._look(view)
                if seen.state is not ObservedState.ENDED:
                    return seen
                view.final = seen
                self._hosts.forget(view)
            return view.final

    def _look(self, view: AttemptView) -> Observation:
        if view.damage is not None:
            return lost(view.damage)
        view.refresh()
        supervision.supervise(view, self._hosts, self._patience)
        self._hosts.exchange(view)
        seen = view.observation()
        if seen.state is ObservedState.ENDED and not view.reaped and any(node.lost for node in view.nodes):
            return LEFT_BEHIND
        return seen if view.over else replace(seen, released=tuple(self._hosts.released(view)))


def news_of(engine: PlacedEngine) -> Callable[[str], None]:
    """A listener that passes news on while the engine exists: threads of hosts must not keep it alive."""
    there = weakref.ref(engine)

    def pass_on(attempt_id: str) -> None:
        if (engine := there()) is not None:
            engine._tell(attempt_id)

    return pass_on
