"""Watches running attempts for the last event of their runners. Used by `SlurmEngine`.

Queries to Slurm are rare without news; reading a few small files is cheap. So the engine learns of an end
within seconds, and only then queries Slurm for the job's state.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Timer

from tarmac.engines.attempts.view import AttemptView, Views
from tarmac.engines.hosts.host import Host
from tarmac.model.errors import Unavailable

MANY = 200
"""Beyond this number the interval grows, to limit the load on the disk."""


class Following:
    """The attempts that were running when last observed; `tell` is called for one that has ended.

    Thread-safe. Idle while no attempt runs.
    """

    def __init__(self, host: Host, views: Views, tell: Callable[[str], None], *, every_s: float) -> None:
        self._host = host
        self._views = views
        self._tell = tell
        self._every_s = every_s
        self._lock = Lock()
        self._running: set[str] = set()
        self._waits = False

    def note(self, attempt_id: str, *, runs: bool) -> None:
        """Follow an attempt, or stop following it."""
        with self._lock:
            if runs:
                self._running.add(attempt_id)
            else:
                self._running.discard(attempt_id)
            self._look_later()

    def _look_later(self) -> None:
        if self._running and not self._waits:
            self._waits = True
            timer = Timer(self._every_s * max(1.0, len(self._running) / MANY), self._look)
            timer.daemon = True
            timer.start()

    def _look(self) -> None:
        with self._lock:
            running = list(self._running)
        ended = self._ended(running)
        with self._lock:
            self._running.difference_update(ended)  # the listener observes them, which shows more
            self._waits = False
            self._look_later()
        for attempt_id in ended:
            self._tell(attempt_id)

    def _ended(self, attempt_ids: list[str]) -> list[str]:
        try:
            self._host.refresh(attempt_ids)
        except Unavailable:
            return []
        views = [view for view in map(self._views.find, attempt_ids) if view is not None]
        return [view.attempt_id for view in views if _is_over(view)]


def _is_over(view: AttemptView) -> bool:
    """Whether each runner has written its last event."""
    with view.lock:
        view.refresh()
        return bool(view.nodes) and all(node.over or node.done for node in view.nodes)
