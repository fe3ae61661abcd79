"""`PlacedEngine`: attempts on hosts, placed by tarmac's own scheduler. Inherited by the local and Ray engine.

It creates the directory of an attempt, has its hosts start the runners, and derives the state of the attempt
from their reports. The only state that must outlive the server is in the directories and on the hosts, so
that the next server adopts everything.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Protocol

from tarmac.engines.attempts import supervision, writing
from tarmac.engines.attempts.aggregate_outcome import observation
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptRequest, AttemptSettings, render
from tarmac.engines.attempts.supervision import Runners
from tarmac.engines.attempts.view import AttemptView, Views
from tarmac.engines.hosts.files import HostFiles
from tarmac.engines.hosts.host import Host
from tarmac.model.ends import lost
from tarmac.model.errors import Refused, Unavailable
from tarmac.model.leaving import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import WorkerStatus
from tarmac.model.record import replace
from tarmac.model.run import Release
from tarmac.model.secret import SecretValues
from tarmac.node.attempt.document import Launch


class PlacedHosts(Runners, Protocol):
    """The hosts of one engine. Methods with a view are called with its lock held, except `refresh`.

    An attempt's directory on this machine (`AttemptView.directory`) is either its only one, or a copy of
    those on its hosts. Every effect may be repeated after a crash at any point.
    """

    def refresh(self, views: Sequence[AttemptView]) -> None:
        """Make the reports of these attempts readable in their directories on this machine.

        A host that cannot be reached changes nothing but the answer of `life`.
        """
        ...

    def exchange(self, view: AttemptView) -> None:
        """After each poll of a live attempt: carry what its hosts have for one another. Raises nothing."""
        ...

    def pass_on(self, view: AttemptView) -> None:
        """Bring the attempt's request to leave to its runners, and wake them.

        Raises Unavailable if one was not reached; the caller tries again.
        """
        ...

    def released(self, view: AttemptView) -> Sequence[Release]:
        """The replicas of a live attempt that are known to have no process left; they stay released."""
        ...

    def forget(self, view: AttemptView) -> None:
        """Release what an ended attempt holds here; idempotent."""
        ...

    def open_session(self, view: AttemptView, worker: WorkerStatus) -> int:
        """As `OpensSessions` defines, without the lock; the worker has a pid."""
        ...

    def with_file(self, view: AttemptView | None, path: str) -> Host | None:
        """The host that has this file of an attempt; None without one. Needs no lock."""
        ...

    def reachable(self) -> Mapping[str, Host]:
        """The hosts that can be reached now, by the name of the node; "" for one that stands for all."""
        ...


ABSENT = Observation(state=ObservedState.ABSENT)
LEFT_BEHIND = Observation(state=ObservedState.UNKNOWN, native_state="what a lost runner left does not end")


class PlacedEngine(HostFiles):
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
        self._layout = layout
        self._seen = seen
        self._settings = settings
        self._patience = patience
        self._secrets = secrets
        self._views = Views(seen)
        self._lock = Lock()
        self._listeners: list[Callable[[str], None]] = []
        writing.prepare(seen)

    # --- the port --------------------------------------------------------------------------------

    def render(self, launch: Launch) -> AttemptRequest:
        return render(launch, self._layout, self._settings)

    def submit(self, request: AttemptRequest) -> None:
        if request.secrets:
            self._secrets(request.secrets)  # all must be readable
        directory = self._seen.attempt(request.attempt_id)
        assert directory is not None, "a request has a directory"
        with self._lock:
            made = writing.stage(request, self._seen, directory)
        view = self._views.add(directory, request.document) if made else self._views.find(request.attempt_id)
        if view is None or not view.nodes:
            return
        with view.lock:
            if not made:
                self._refresh(view)
            supervision.start(view, self._hosts)

    def observe(self, attempt_ids: Sequence[str]) -> Mapping[str, Observation]:
        views = {attempt_id: self._views.find(attempt_id) for attempt_id in attempt_ids}
        self._hosts.refresh([view for view in views.values() if view is not None and view.final is None])
        return {
            attempt_id: ABSENT if view is None else view.final or self._observe(view)
            for attempt_id, view in views.items()
        }

    def request_leave(self, attempt_id: str, request: LeaveRequest) -> None:
        view = self._views.find(attempt_id)
        if view is None and request.ends:
            view = self._fenced(attempt_id, request)
        if view is None:
            return
        with view.lock:
            self._refresh(view)
            if all(node.over for node in view.nodes):
                return
            writing.pass_on(view, request)
            if request.ends:
                self._hosts.fence(view)
            self._hosts.pass_on(view)
        self._tell(attempt_id)  # no runner may be left to do so

    # --- optional abilities ----------------------------------------------------------------------

    def subscribe(self, listener: Callable[[str], None]) -> None:
        with self._lock:
            self._listeners.append(listener)

    def reap(self, attempt_id: str) -> None:
        view = self._views.find(attempt_id) or self._fenced(attempt_id, None)
        if view is None:
            return
        try:
            with view.lock:
                self._refresh(view)
                supervision.reap(view, self._hosts)
        except Unavailable:
            if self._settings.node.lease_s is None:
                raise  # with a lease the runner of an unreachable host ends its work itself
        self._tell(attempt_id)

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        view = self._views.find(attempt_id)
        if view is None or worker.pid is None:
            raise Refused("the worker has not started")
        return self._hosts.open_session(view, worker)

    # --- inside ----------------------------------------------------------------------------------

    def _reachable(self) -> Mapping[str, Host]:
        return self._hosts.reachable()

    def _host_with(self, attempt_id: str, path: str) -> Host | None:
        return self._hosts.with_file(self._views.find(attempt_id), path)

    def _tell(self, attempt_id: str) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for listener in listeners:
            listener(attempt_id)

    def _refresh(self, view: AttemptView) -> None:
        self._hosts.refresh([view])
        view.refresh()

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
        over = all(node.over for node in view.nodes)
        seen = observation([node.facts for node in view.nodes], view.leave_request() if over else None)
        if seen.state is ObservedState.ENDED and not view.reaped and any(node.lost for node in view.nodes):
            return LEFT_BEHIND
        return seen if over else replace(seen, released=tuple(self._hosts.released(view)))

    def _fenced(self, attempt_id: str, request: LeaveRequest | None) -> AttemptView | None:
        """Fence an attempt that was never submitted here; None for an invalid id."""
        directory = self._seen.attempt(attempt_id)
        if directory is None:
            return None
        with self._lock:
            writing.stage_fence(attempt_id, directory, self._seen, request)
        return self._views.find(attempt_id)


def news_of(engine: PlacedEngine) -> Callable[[str], None]:
    """A listener that passes news on while the engine exists: threads of hosts must not keep it alive."""
    there = weakref.ref(engine)

    def pass_on(attempt_id: str) -> None:
        if (engine := there()) is not None:
            engine._tell(attempt_id)

    return pass_on
