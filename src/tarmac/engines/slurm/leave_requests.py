"""Requests to leave, passed on through the directory of an attempt. Used by `SlurmEngine`.


The lock of the view is held. Everything here may be done again, after a crash or a lost connection at any
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
from tarmac.engines.slurm.files import BEGUN_FILE, OVER_FILE
from tarmac.model.errors import Unavailable
from tarmac.model.leaving import LeaveRequest
from tarmac.node.attempt.protocol import HEARTBEAT_LEASE_S

LONGEST_END_S = 300.0
"""So long runners whose job is over are waited for at most, while there are signs of life."""


class LeaveRequests:
    """Passes on requests to leave; fences and takes back attempts."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def pass_on(self, view: AttemptView, request: LeaveRequest) -> None:
        """Write down a request to leave, unless a stronger one is there."""
        if not writing.replaces(request, view.leave_request()):
            return
        content = json.dumps(writing.pending_request(request)).encode()
        with self._doing(view, f"pass on the {request} to"):
            nodes = [node.node for node in view.nodes]
            self._host.request_leave(self._host.directory(view.attempt_id), content, nodes)

    def take_back(self, view: AttemptView) -> bool:
        """See to it that no job of the attempt ever begins; False where one has."""
        with self._doing(view, "take back"):
            path = self._host.directory(view.attempt_id) / BEGUN_FILE
            found = self._host.write_once(path, observing.TAKEN_BACK.encode())
        return found.decode(errors="replace").strip() == observing.TAKEN_BACK

    def end_survivors(self, view: AttemptView, state: str) -> None:
        """Stop what lives on of an attempt whose job is over, as on a node that Slurm lost sight of.

        First the state of the job is written down: how the runners leave now is not how the attempt ended.
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
        """Whether the runners of an attempt whose job has been over for so long are waited for.

        What they said may be on its way for `lag_s`. Who lives on, where Slurm lost sight of a node, is asked
        to stop and waited for, while there is a sign of life: no other attempt begins beside them.
        """
        if over_s < lag_s / 5:
            return True
        self.end_survivors(view, state)
        silent = all(node.still_s() > HEARTBEAT_LEASE_S for node in _started(view))
        return over_s < lag_s or (not silent and over_s < LONGEST_END_S)

    def fence(self, view: AttemptView) -> None:
        """See to it that no node that nobody has claimed ever starts."""
        unclaimed = [node.node for node in view.nodes if node.facts.state is PartState.UNCLAIMED]
        if unclaimed:
            with self._doing(view, "fence"):
                self._host.fence(self._host.directory(view.attempt_id), unclaimed)
            view.refresh()

    @contextmanager
    def _doing(self, view: AttemptView, what: str) -> Iterator[None]:
        """Around what changes an attempt: afterwards it can be seen."""
        try:
            yield
        except OSError as error:
            message = f"cannot {what} attempt {view.attempt_id}: {error.strerror}"
            raise Unavailable(message, hint=writing.hint(error)) from None
        self._host.refresh([view.attempt_id])


def _started(view: AttemptView) -> list[NodeView]:
    """The nodes whose runners have begun, and have not ended for all that is known."""
    return [node for node in view.nodes if node.facts.state is not PartState.UNCLAIMED and not node.over]
