"""Hook: watch the workers until no process of the attempt remains on the node. Called by `runner`.

    running --- a worker fails --------------------------> SIGTERM, a moment, SIGKILL
       |    --- the attempt failed on another node ------> SIGTERM, a moment, SIGKILL
       |    --- asked, or out of time --> pause file, signal, grace, SIGKILL
       |        --- a worker fails -----> only as much grace as the others need to save: see `Grace`
       |    --- asked to stop at once --> SIGKILL
       +------- all workers left -------> remaining processes: SIGTERM, a moment, SIGKILL

Except for a stop, roles that poll (see `polls`) get no signal: they leave by themselves. The other workers of
the attempt get it once no polling worker runs, as polling workers may need them until then.

The runner sends SIGKILL to every descendant, repeatedly, until none is left. Only its due time (`sweep_due`)
differs; it may move earlier, never later. With `stop_on_nan` it finds the reported metric that is not finite
and ended a worker, as a launcher's last lines do not show it.
"""

from __future__ import annotations

import os
import signal
import time
from typing import Optional

from tarmac.node.attempt import exit_outcome, protocol, words
from tarmac.node.files import logroom, untrusted
from tarmac.node.files.masking import Mask
from tarmac.node.hooks.workers import end_those_over_limit, ran_out
from tarmac.node.kernel import procfs
from tarmac.node.noderun import NodeRun, Worker
from tarmac.node.progress import polls
from tarmac.node.progress.torn import Budget
from tarmac.node.progress.watcher import ProgressWatcher

MOMENT_S = 0.3
"""Seconds between SIGTERM and SIGKILL for peers of a failed worker and for leftover processes."""

_QUICK_S = 0.01
"""Seconds in which a short run may end before anything else is looked at."""

_SWEEP_AGAIN_S = 0.05
_LISTEN_AGAIN_S = 0.05
_LISTEN_SHARE = 0.1
_LISTEN_MOST_S = 1.0
"""Limits the time that the runner spends on checkpoint events of a run that saves without pause."""
_GIVE_UP_S = 5.0
_LONGEST_WORLD_BYTES = 1000
_LAUNCHER_SIGN = "SignalException"
"""torchrun exits with code 1 after a signal, and prints this in its last lines."""

_BYTES = 64 * 1024

_LEAST_WRITTEN_BYTES = 1 << 20
_LEAST_READ_BYTES = 64 << 20
"""Fewer bytes are lines of a log, or the reads of a thread that monitors the machine."""

_NOTHING = procfs.Transfer(0, 0)


def watch(run: NodeRun) -> None:
    """Return after every descendant has ended; `run.exits` then records each worker's exit."""
    assert run.progress is not None
    Watch(run, run.progress).until_over()
    run.over_at = time.time()
    run.progress.close()


class Watch:
    """The watch over one node's workers."""

    def __init__(self, run: NodeRun, progress: ProgressWatcher) -> None:
        self._run = run
        self._progress = progress
        self._setup_index = logroom.TimeIndex(run.setup_log, run.attempt.index(f"setup.{run.node_name}"))
        self._sweep_due: Optional[float] = None
        self._swept_at: Optional[float] = None
        self._leave_signal: Optional[str] = None
        self._withholds = False
        self._unsignalled = set(run.workers)
        self._leave_began = False
        self._world_seen = False
        self._grace = Grace(run)
        self._listening = Budget(_LISTEN_SHARE, most_s=_LISTEN_MOST_S)

    def until_over(self) -> None:
        """Watch until the end; each round checks everything, in this order."""
        run = self._run
        if not run.children.none_left:
            run.wake_channel.wait(time.monotonic() + _QUICK_S)
        while True:
            for child in run.children.reap():
                self._note_exit(next(worker for worker in run.workers if worker.child is child))
            self._look_for_failure()
            self._look_for_failure_while_leaving()
            self._look_at_world()
            if run.children.none_left:
                return
            self._look_for_leave_requests()
            self._pass_signal_on()
            self._look_for_leftovers()
            if self._sweep():
                return
            self._note_growth()
            end_those_over_limit(run)
            run.sidecar.look()
            run.lease.guard.look(run.children)
            run.meter.look(run.children)
            run.events.flush()
            self._wait()

    def _note_exit(self, worker: Worker) -> None:
        """Report the exit of a worker."""
        run, child = self._run, worker.child
        assert child is not None
        worker.index.note(time.time(), final=True)
        self._progress.note_exit(good=child.exit_code == 0)
        lines = logroom.last_lines(worker.log, run.events.mask) if child.exit_code != 0 else []
        struck = child.signal == signal.SIGKILL.name
        by_runner = struck and self._swept_at is not None
        by_others = not by_runner and (struck or child.exit_code == 128 + signal.SIGKILL)
        stops_on_nan = worker.part.env.get(protocol.STOP_ON_NAN_VARIABLE) == "1"
        memory = ran_out(run, worker, struck=by_others) if child.exit_code != 0 and not by_runner else None
        left = exit_outcome.Exit(
            worker.part,
            exit_code=child.exit_code,
            signal=child.signal,
            leave_began=self._leave_began,
            by_runner=by_runner,
            by_launcher=any(_LAUNCHER_SIGN in line for line in lines),
            memory=memory,
            detail=newest_not_finite(run.node.reports, run.events.mask) if stops_on_nan else "",
            tail=lines,
        )
        run.note_exit(left)

    def _look_for_failure(self) -> None:
        """End all workers after one failed, here or on another node."""
        run = self._run
        if run.failure_cause is not None:
            return
        run.failure_cause = run.peer_failure()
        if run.failure_cause is None and not self._leave_began:
            ending = (item for item in run.exits if not item.good and item.part.stop_on_failure)
            failed = next(ending, None)
            if failed is not None:
                run.note_failure(exit_outcome.failure(failed, node=run.node_name))
        if run.failure_cause is not None:
            self._signal(signal.SIGTERM.name)
            self._sweep_within(MOMENT_S)

    def _look_for_failure_while_leaving(self) -> None:
        """After a worker failed while leaving, end the others as soon as none of them saves any more."""
        if not self._leave_began or self._swept_at is not None or self._run.failure_cause is not None:
            return
        if self._grace.is_over(self._leave_signal):
            self._sweep_within(0.0)

    def _look_at_world(self) -> None:
        """Notify the user, once, that processes do not train together."""
        run = self._run
        if self._world_seen or not os.path.exists(run.node.world):
            return
        self._world_seen = True
        try:
            text = untrusted.read_bytes(run.node.world, _LONGEST_WORLD_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            return
        run.events.notice(" ".join(text.split()))

    def _look_for_leave_requests(self) -> None:
        """Pass on requests to leave; a request from the node to its runner counts as one."""
        run = self._run
        if run.failure_cause is not None:
            return
        kind = run.new_leave_kind()
        if kind is not None:
            run.note_leave_request(kind)
            self._request_leave(run.leave_signal(kind), withholds=kind != words.STOP)
            if kind == words.STOP_NOW:
                self._sweep_within(0.0)
        elif run.wake_channel.node_leaves and not self._leave_began:
            run.events.notice(f"{run.node_name} told the runner to leave")
            run.raise_pause_file()
            self._request_leave(run.leave_signal(words.STOP), withholds=True)

    def _request_leave(self, number: Optional[str], *, withholds: bool) -> None:
        self._progress.before_leaving()
        self._leave_signal, self._withholds = number, withholds
        self._leave_began = True
        self._sweep_within(self._run.document.grace_s)

    def _pass_signal_on(self) -> None:
        """Send the signal of the request once to each worker that has not had it."""
        if self._leave_signal is None or not self._unsignalled:
            return
        run, due = self._run, set(self._unsignalled)
        if self._withholds:
            polling = polls.look(run.attempt.node(name).directory for name in run.document.node_names)
            due = {each for each in due if not polling.lives and each.part.role not in polling.roles}
        if not due:
            return
        with run.children.stopped():
            self._progress.before_leaving()
            for worker in due:
                self._unsignalled.discard(worker)
                if worker.child is not None:
                    worker.child.ask(signal.Signals[self._leave_signal])

    def _signal(self, name: str) -> None:
        self._unsignalled.clear()
        self._leave_began = True
        with self._run.children.stopped():
            self._progress.before_leaving()
            for worker in self._run.workers:
                if worker.child is not None:
                    worker.child.send(signal.Signals[name])

    def _look_for_leftovers(self) -> None:
        """After all workers left, end leftover processes; those in the workers' groups keep the grace."""
        started = [worker.child for worker in self._run.workers if worker.child]
        if not all(child.left for child in started):
            return
        if self._leave_began and any(child.group_lives for child in started):
            return
        if self._sweep_due is None or self._sweep_due > time.monotonic() + MOMENT_S:
            with self._run.children.stopped():
                self._progress.before_leaving()
                self._run.children.ask_to_end()
            self._sweep_within(MOMENT_S)

    def _sweep_within(self, patience_s: float) -> None:
        due = time.monotonic() + patience_s
        self._sweep_due = due if self._sweep_due is None else min(due, self._sweep_due)

    def _sweep(self) -> bool:
        """Send SIGKILL to every descendant when due; True if only processes of other users are left."""
        now = time.monotonic()
        if self._sweep_due is None or now < self._sweep_due:
            return False
        self._swept_at = self._swept_at or now
        self._sweep_due = now + _SWEEP_AGAIN_S
        refusing = self._run.children.end(before=self._progress.before_leaving)
        if refusing and now - self._swept_at > _GIVE_UP_S:
            pids = ", ".join(str(process.pid) for process in refusing)
            self._run.events.notice(f"processes of another user cannot be ended: {pids}")
            return True
        return False

    def _note_growth(self) -> None:
        now = time.time()
        self._setup_index.note(now)
        for worker in self._run.workers:
            if worker.child is not None and not worker.child.left:
                worker.index.note(now)
        self._run.log_room.look()
        self._progress.look()

    def _wait(self) -> None:
        """Wait for news. While workers end, a change of the checkpoints is checked at once."""
        due = self._next_due()
        if not self._leave_began and not self._listening.is_left():
            again = time.monotonic() + _LISTEN_AGAIN_S
            self._run.wake_channel.wait(again if due is None else min(due, again))
        elif self._run.wake_channel.wait(due, also=self._progress.fileno()):
            with self._listening.spending():
                self._progress.look()  # at once: an early check identifies the closing process more reliably

    def _next_due(self) -> Optional[float]:
        run = self._run
        leave = None if self._leave_began else run.leave_due
        room_due = run.log_room.low_disk_due
        waits = (self._sweep_due, self._grace.due, leave, run.lease.guard.due, run.meter.due, room_due)
        return min((due for due in waits if due is not None), default=None)


class Grace:
    """The grace of the workers on one node, which a worker's failure shortens while all are leaving.

    After a requested leave, the peers of a worker may still save. The peers of a crashed worker may wait for
    it in a collective operation for the whole grace, up to an hour. After a crash the workers have
    `patience_s`, which begins again each time a worker of the node has saved a file, until the grace is over.
    The runner sends them no signal before SIGKILL: they have the signal of the request already, or must not
    get it. The outcome of the attempt follows from the exits, here from that of the failed worker. A process
    that hangs in a collective operation may compute at full speed, but writes almost nothing; one that saves
    writes, or reads data from a disk to send it elsewhere.
    """

    def __init__(self, run: NodeRun) -> None:
        self._run = run
        self._failure: Optional[exit_outcome.Cause] = None
        self._transfers: dict[procfs.Process, procfs.Transfer] = {}
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
        run = self._run
        why = f"{self._failure.get('message')} while all were leaving"
        still = f"saved nothing for {run.document.patience_s:g} s"
        run.events.notice(f"the workers on {run.node_name} are ended: {why}, and they {still}")
        return True

    def _look_for_failure(self, leave_signal: Optional[str]) -> None:
        run = self._run
        late = (item for item in run.exits if item.leave_began and item.part.stop_on_failure)
        failed = next((item for item in late if not exit_outcome.left_as_requested(item, leave_signal)), None)
        if failed is None:
            self._failure = run.peer_failure_while_leaving()
        else:
            self._failure = exit_outcome.failure(failed, node=run.node_name)
            run.note_failure_while_leaving(self._failure)
        if self._failure is not None:
            self._is_saving()  # from here on
            self._begin_again()

    def _is_saving(self) -> bool:
        """Whether the processes of the node have saved something since the last call."""
        before = self._transfers
        self._transfers = procfs.transfers(self._run.children.living())
        pairs = [(before.get(process, _NOTHING), now) for process, now in self._transfers.items()]
        written_bytes = sum(now.written_bytes - old.written_bytes for old, now in pairs)
        read_bytes = sum(now.read_bytes - old.read_bytes for old, now in pairs)
        return written_bytes >= _LEAST_WRITTEN_BYTES or read_bytes >= _LEAST_READ_BYTES

    def _begin_again(self) -> None:
        self.due = time.monotonic() + self._run.document.patience_s


def newest_not_finite(reports: str, mask: Mask) -> str:
    """`: loss is nan at step 2 (stop_on_nan)`, from the last reports of a node; "" if there is none."""
    end, _ = untrusted.last_bytes(reports, _BYTES)
    for line in reversed(mask.data(end).split(b"\n")):
        try:
            report = untrusted.parse_object(line)
            for name, value in report["metrics"].items():
                if value in protocol.NOT_FINITE:
                    at = "" if report["step"] is None else f" at step {int(report['step'])}"
                    return f": {' '.join(name[:100].split())} is {value}{at} (stop_on_nan)"
        except (ValueError, KeyError, TypeError, AttributeError):
            continue  # a worker can also write here
    return ""
