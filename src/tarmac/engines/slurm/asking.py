"""What is asked of an attempt through its directory. Used by `SlurmEngine`, with the lock of its view held.

Everything here may be done again, after a crash or a lost connection at any point. All raise Unavailable.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tarmac.engines.attempts import writing
from tarmac.engines.attempts.aggregate_outcome import Phase
from tarmac.engines.attempts.view import AttemptView
from tarmac.engines.slurm.host import Host
from tarmac.engines.slurm.observing import TAKEN_BACK
from tarmac.engines.slurm.script import BEGUN_FILE, REQUEUED_FILE
from tarmac.model.errors import Unavailable
from tarmac.model.run import LeaveRequest


class Asking:
    """Asks, fences and takes back attempts."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def pass_on(self, view: AttemptView, ask: LeaveRequest) -> None:
        """Put an ask down, unless a stronger one stands."""
        if not writing.replaces(ask, view.leave_request()):
            return
        content = json.dumps(writing.pending_request(ask)).encode()
        with self._doing(view, f"pass on the {ask} to"):
            self._host.ask(self._host.directory(view.attempt_id), content, [node.node for node in view.nodes])

    def take_back(self, view: AttemptView) -> bool:
        """See to it that no job of the attempt ever begins; False where one has."""
        with self._doing(view, "take back"):
            path = self._host.directory(view.attempt_id) / BEGUN_FILE
            found = self._host.write_once(path, TAKEN_BACK.encode())
        return found.decode(errors="replace").strip() == TAKEN_BACK

    def note_requeued(self, view: AttemptView, job_id: str) -> None:
        """Write down that Slurm put the job back that ran the attempt."""
        with self._doing(view, "write to"):
            self._host.write(self._host.directory(view.attempt_id) / REQUEUED_FILE, job_id.encode())

    def fence(self, view: AttemptView) -> None:
        """See to it that no node that nobody has claimed ever starts."""
        unclaimed = [node.node for node in view.nodes if node.facts.phase is Phase.UNCLAIMED]
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
