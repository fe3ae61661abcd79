"""Requests to leave, passed on through the directory of an attempt. Used by `SlurmEngine`.


Callers hold the lock of the view. Every call may be repeated, after a crash or a lost connection at any
point. All raise Unavailable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import PartState
from tarmac.engines.attempts.view import AttemptView, NodeView
from tarmac.engines.hosts.host import Host
from tarmac.engines.slurm import observing
from tarmac.engines.slurm.settings import BEGUN_FILE, OVER_FILE
from tarmac.model.errors import Unavailable
from tarmac.model.leaving import LeaveRequest
from tarmac.node.attempt.protocol import HEARTBEAT_LEASE_S

LONGEST_END_S = 300.0
"""The maximum wait for runners of an ended job while they show signs of life."""


class LeaveRequests:
    """Passes on requests to leave; fences and takes back attempts."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def pass_on(self, view: AttemptView, request: LeaveRequest) -> None:
        """Store a request to leave, unless a stronger one exists."""
        if not writing.replaces(request, view.leave_request()):
            return
        content = json.dumps(writing.pending_request(request)).encode()
        with self._doing(view, f"pass on the {request} to"):
            nodes = [node.node for node in view.nodes]
            self._host.request_leave(self._host.directory(view.attempt_id), content, nodes)

    def take_back(self, view: AttemptView) -> bool:
        """Prevent all jobs of the attempt from beginning; False if one has begun."""
        with self._doing(view, "take back"):
            path = self._host.directory(view.attempt_id) / BEGUN_FILE
            found = self._host.write_once(path, observing.TAKEN_BACK.encode())
        return found.decode(errors="replace").strip() == observing.TAKEN_BACK

    def end_survivors(self, view: AttemptView, state: str) -> None:
        """Stop the remaining runners of an attempt whose job has ended, as on a node lost by Slurm.

        The state of the job is stored first: the exits after this stop are not the attempt's outcome.
        """
        lives = _started(view)
        if not lives and state != observing.REQUEUED:
            return
        if observing.over_as(view.directory) is None and not view.is_to_end:
            with self._doing(view, "write to"):
                self._host.write(self._host.directory(view.attempt_id) / OVER_FILE, state.encode())
        if lives:
            self.pass_on(view, LeaveRequest.STOP)

    def may_say_more(self, view: AttemptView, state: str, *, over_s: float, lag_s: float) -> bool:
        """Whether to wait for the runners of an attempt whose job ended `over_s` ago.

        Their reports may take `lag_s` to arrive. Runners on a node that Slurm lost contact with are asked to
        stop and waited for while there are signs of life: no other attempt begins beside them.
        """
        if over_s < lag_s / 5:
            return True
        self.end_survivors(view, state)
        silent = all(node.still_s() > HEARTBEAT_LEASE_S for node in _started(view))
        return over_s < lag_s or (not silent and over_s < LONGEST_END_S)

    def fence(self, view: AttemptView) -> None:
        """Prevent every unclaimed node from starting."""
        unclaimed = [node.node for node in view.nodes if node.facts.state is PartState.UNCLAIMED]
        if unclaimed:
            with self._doing(view, "fence"):
                self._host.fence(self._host.directory(view.attempt_id), unclaimed)
            view.refresh()

    @contextmanager
    def _doing(self, view: AttemptView, what: str) -> Iterator[None]:
        """Report an OSError in a change of an attempt as Unavailable; refresh its view after a success."""
        try:
            yield
        except OSError as error:
            message = f"cannot {what} attempt {view.attempt_id}: {error.strerror}"
            raise Unavailable(message, hint=writing.hint(error)) from None
        self._host.refresh([view.attempt_id])


def _started(view: AttemptView) -> list[NodeView]:
    """The nodes whose runners have begun and, as far as is known, have not ended."""
    return [node for node in view.nodes if node.facts.state is not PartState.UNCLAIMED and not node.over]
