"""Shortens the grace after a worker fails while all are leaving. Called by the hook `watch`.

After a requested leave, the peers of a worker may still save. The peers of a crashed worker may wait for it
in a collective operation for the whole grace, up to an hour. After a crash the workers have `patience_s`,
which begins again each time a worker of the node has saved a file, until the grace is over. The runner sends
them no signal before SIGKILL: they have the signal of the request already, or must not get it. The outcome of
the attempt follows from the exits, here from that of the failed worker. A process that hangs in a collective
operation may compute at full speed, but writes almost nothing; one that saves writes, or reads data from a
disk to send it elsewhere.
"""

from __future__ import annotations

import time
from typing import Optional

from tarmac.node.attempt import exit_outcome
from tarmac.node.attempt.exit_outcome import Cause, Exit
from tarmac.node.kernel import descendants, procfs
from tarmac.node.kernel.procfs import Process, Transfer
from tarmac.node.noderun import NodeRun

LEAST_WRITTEN_BYTES = 1 << 20
LEAST_READ_BYTES = 64 << 20
"""Fewer bytes are lines of a log, or the reads of a thread that monitors the machine."""


_NOTHING = Transfer(0, 0)


class Grace:
    """The grace of the workers on one node."""

    def __init__(self, run: NodeRun) -> None:
        self._run = run
        self._failure: Optional[Cause] = None
        self._transfers: dict[Process, Transfer] = {}
        self.due: Optional[float] = None
        """The time of the next check (monotonic clock); None: no worker has failed."""

    def is_over(self, leave_signal: Optional[str]) -> bool:
        """Whether the remaining workers of this node must end; `leave_signal` is the signal that they got."""
        if self._failure is None:
            self._look_for_failure(leave_signal)
            return False
        if self.due is None or time.monotonic() < self.due:
            return False
        if self._is_saving():
            self._begin_again()
            return False
        self.due = None
        self._say(self._failure)
        return True

    def _look_for_failure(self, leave_signal: Optional[str]) -> None:
        run = self._run
        failed = self._first_failed(leave_signal)
        if failed is None:
            self._failure = run.peer_failure_while_leaving()
        else:
            self._failure = exit_outcome.failure(failed, node=run.node_name)
            run.note_failure_while_leaving(self._failure)
        if self._failure is not None:
            self._is_saving()  # from here on
            self._begin_again()

    def _first_failed(self, leave_signal: Optional[str]) -> Optional[Exit]:
        for worker in self._run.workers:
            left = worker.exit
            if left is None or not left.leave_began or not worker.part.stop_on_failure:
                continue
            if not exit_outcome.left_as_requested(left, leave_signal):
                return left
        return None

    def _is_saving(self) -> bool:
        """Whether the processes of the node have saved something since the last call."""
        before = self._transfers
        self._transfers = procfs.transfers(descendants.living(but=self._run.children.aside))
        pairs = [(before.get(process, _NOTHING), now) for process, now in self._transfers.items()]
        written_bytes = sum(now.written_bytes - old.written_bytes for old, now in pairs)
        read_bytes = sum(now.read_bytes - old.read_bytes for old, now in pairs)
        return written_bytes >= LEAST_WRITTEN_BYTES or read_bytes >= LEAST_READ_BYTES

    def _begin_again(self) -> None:
        self.due = time.monotonic() + self._run.document.patience_s

    def _say(self, failure: Cause) -> None:
        run = self._run
        why = f"{failure.get('message')} while all were leaving"
        still = f"saved nothing for {run.document.patience_s:g} s"
        run.events.notice(f"the workers on {run.node_name} are ended: {why}, and they {still}")
