"""Follows a run to its end: shows the server's messages in a view. Called by `run`, `logs -f` and others.

The client's stream survives a server that dies; this module adds information for people: the expected workers
(one or several), their nodes, and `news` during silence.
"""

import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarmac import api
from tarmac.cli.dialogue import wants_json
from tarmac.cli.views.errors import INTERRUPTED
from tarmac.cli.views.followview import JsonView, TextView
from tarmac.cli.views.logview import WorkerKey
from tarmac.cli.views.messages import state_detail
from tarmac.cli.views.metricview import NEWEST_REPORTS, not_finite
from tarmac.cli.views.terminal import stderr_terminal, stdout_terminal
from tarmac.client.client import Client, LogChoice
from tarmac.model.errors import TarmacError
from tarmac.model.resources import DEFAULT_ROLE

PATIENCE_S = 2.0
"""How long a run may wait in silence before its follower sees the reason."""

REPORT_PERIOD_S = 10.0
"""How long a running run may write nothing before its progress is shown."""

_WAITING = frozenset({"pending", "queued"})
_PLACED = frozenset({"running", "pausing", "preempting", "stopping"})

View = TextView | JsonView
"""Receives the events of a followed run, in order."""


def standard_view(**form: Any) -> View:
    """The view on this program's own stdout and stderr; `form` has options of `TextView`."""
    if wants_json():
        return JsonView(sys.stdout)
    out, err = stdout_terminal(), stderr_terminal()
    return TextView(sys.stdout, sys.stderr, out_terminal=out, err_terminal=err, **form)


def follow_submitted(client: Client, run: api.Run) -> int:
    """Show a newly submitted run until it ends, and return its exit code."""
    view = standard_view()
    view.submitted(run)
    return follow(client, run.id, view, {})


def follow(client: Client, run_id: str, view: View, choice: LogChoice) -> int:
    """Show a run until it ends and return its exit code; Ctrl-C leaves it running and returns 130."""
    known: dict[int, tuple[Sequence[WorkerKey], Sequence[str]]] = {}

    def places(number: int) -> tuple[Sequence[WorkerKey], Sequence[str]]:
        """The expected workers and the nodes of an attempt, requested once."""
        if number not in known:
            run = client.run(run_id)
            for attempt in client.attempts(run_id):
                known[attempt.number] = list(expected_workers(run, attempt, choice)), attempt.nodes
        return known.setdefault(number, ((), ()))

    news = News(client, run_id, view)
    news.start()
    try:
        for message in client.follow(run_id, **choice):
            data = message.data
            if message.event == "end":
                news.stop()
                with news.lock:
                    view.end(data)
                return int(data.exit_status or 0)
            if message.event == "log":
                news.note_output()
                workers, _ = places(data.attempt)
                with news.lock:
                    view.expect(workers)
                    view.log(data)
            elif message.event == "state":
                news.note_state(data.state)
                workers, nodes = places(data.attempt) if data.state in _PLACED else ((), ())
                detail = state_detail(client, data)
                with news.lock:
                    view.expect(workers)
                    view.state(data, nodes, detail)
            elif message.event == "notice":
                with news.lock:
                    view.notice(data)
    except KeyboardInterrupt:
        with news.lock:
            view.detached(run_id)
        return INTERRUPTED
    finally:
        news.stop()
    return 0


def expected_workers(run: api.Run, attempt: api.Attempt, choice: LogChoice) -> Iterator[WorkerKey]:
    """The selected workers of an attempt, known from its placements before any of them has started."""
    roles = {role.get("name", DEFAULT_ROLE): role for role in run.spec["roles"]}
    for placement in attempt.placements:
        if choice.get("role") not in (None, placement.role) or choice.get("replica") not in (
            None,
            placement.replica,
        ):
            continue
        role = roles.get(placement.role)
        if choice.get("rank") is not None and role is not None and role.get("launcher") is not None:
            continue  # only one of them writes this log
        for index in range(_workers(role, placement) if role is not None else 1):
            if choice.get("worker") in (None, index):
                yield placement.role, placement.replica, index


def _workers(role: Mapping[str, Any], placement: api.WorkerPlacement) -> int:
    """The number of workers of a replica: with a launcher, one for each of its slots."""
    return len(role["processes"]) if role.get("launcher") is None else max(1, len(placement.slots))


class News(threading.Thread):
    """News for a follower while the stream is silent: the reason of a wait once, or changed progress.

    A thread beside the stream, whose messages `note_state` and `note_output` report. `lock` is held while
    either of them uses the view.
    """

    def __init__(
        self,
        client: Client,
        run_id: str,
        view: View,
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
        self.lock = threading.Lock()
        self._condition = threading.Condition()
        self._state = "pending"
        self._explained = False
        self._heard = 0
        self._stopped = False
        self._latest: api.Report | None = None

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
        with self.lock:
            if self._state in _WAITING and not self._stopped:
                self._view.waiting(why)

    def _show_progress(self) -> None:
        reports = self._client.reports(self._run_id, limit=NEWEST_REPORTS)
        if not reports or reports[-1] == self._latest:
            return
        self._latest = reports[-1]
        with self.lock:
            if not self._stopped:
                self._view.report(reports[-1])
                for flagged in not_finite(reports):
                    self._view.notice(api.StreamNotice(text=flagged, attempt=reports[-1].attempt, node=""))
