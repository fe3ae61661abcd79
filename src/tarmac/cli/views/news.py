"""News for a follower while the stream is silent: the reason of a wait, or the progress. Used by `following`.

A thread beside the stream. It shows the reason of each wait once, and progress only when it has changed.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tarmac.cli.views.followview import SharedView
from tarmac.cli.views.messages import Json
from tarmac.cli.views.metricview import NEWEST_REPORTS, not_finite
from tarmac.model.errors import TarmacError

if TYPE_CHECKING:
    from tarmac.client import Client

PATIENCE_S = 2.0
"""How long a run may wait in silence before its follower sees the reason."""

REPORT_PERIOD_S = 10.0
"""How long a running run may write nothing before its progress is shown."""

_WAITING = frozenset({"pending", "queued"})


class News(threading.Thread):
    """Watches for silence; `note_state` and `note_output` report the messages of the stream."""

    def __init__(
        self,
        client: Client,
        run_id: str,
        view: SharedView,
        *,
        patience_s: float = PATIENCE_S,
        report_period_s: float = REPORT_PERIOD_S,
    ) -> None:
        super().__init__(name="news", daemon=True)
        self._patience_s = patience_s
        self._report_period_s = report_period_s
        self._client = client
        self._run_id = run_id
        self._view = view
        self._condition = threading.Condition()
        self._state = "pending"
        self._explained = False
        self._heard = 0
        self._stopped = False
        self._latest: Json | None = None

    def note_state(self, state: str) -> None:
        """Note that the run has entered a state."""
        with self._condition:
            if state not in _WAITING or self._state not in _WAITING:
                self._explained = False
            self._state = state
            self._heard += 1
            self._condition.notify()

    def note_output(self) -> None:
        """Note that a worker has written."""
        with self._condition:
            self._heard += 1

    def stop(self) -> None:
        """Stop showing news."""
        with self._condition:
            self._stopped = True
            self._condition.notify()

    def run(self) -> None:
        """Until stopped: wait for a silence, then show news."""
        while (state := self._silence()) is not None:
            try:
                if state == "running":
                    self._show_progress()
                elif state in _WAITING:
                    self._show_reason()
            except (TarmacError, OSError):  # the stream reports the error of the server
                continue

    def _silence(self) -> str | None:
        """The state, after the stream was silent for a while; None after `stop`."""
        with self._condition:
            while not self._stopped:
                heard = self._heard
                impatient = self._state in _WAITING and not self._explained
                self._condition.wait(self._patience_s if impatient else self._report_period_s)
                if not self._stopped and self._heard == heard:
                    return self._state
        return None

    def _show_reason(self) -> None:
        if self._explained:
            return
        why = self._client.why(self._run_id)
        self._explained = True
        with self._view.locked() as view:
            if self._state in _WAITING and not self._stopped:
                view.waiting(why)

    def _show_progress(self) -> None:
        reports = self._client.reports(self._run_id, limit=NEWEST_REPORTS)
        if not reports or reports[-1] == self._latest:
            return
        self._latest = reports[-1]
        with self._view.locked() as view:
            if not self._stopped:
                view.report(reports[-1])
                for flagged in not_finite(reports):
                    view.notice({"attempt": reports[-1]["attempt"], "node": "", "text": flagged})
