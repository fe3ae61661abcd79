"""Observes workers from outside: first output, checkpoints, and reads of earlier checkpoints.

Made by the hook `workers`, called by the hook `watch` whenever it is awake; observations become events (see
`protocol`). The cycle report of a run is made of these events, and the run that would lose the least progress
is preempted first.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from typing import Callable, Mapping, Optional, Sequence, Union

from tarmac.node.attempt import protocol
from tarmac.node.attempt.events import EventLog
from tarmac.node.files import untrusted
from tarmac.node.progress.torn import Torn
from tarmac.node.progress.tree import Change, Glimpse, TreeTimes, TreeWatch

REPORT_EVERY_S = 30.0
"""The minimum interval of checkpoint events: a run that saves without pause must not fill the disk."""

DOUBT_S = 0.25
"""A closed file counts as complete after its writer has lived for this time."""


_FIRST_BYTES = 65536

Tree = Union[TreeWatch, TreeTimes]


def tree_below(root: str, *, watch: Callable[[str], Tree] = TreeWatch) -> Tree:
    """Observe a directory of checkpoints from now on, as closely as this node allows."""
    try:
        return watch(root)
    except OSError:  # not supported here, or this user has too many already
        return TreeTimes(root)


class ProgressWatcher:
    """Watches one node's workers from before their start to their end."""

    def __init__(
        self,
        events: EventLog,
        *,
        logs: Sequence[str],
        reports: str,
        tree: Optional[Tree],
        torn: Optional[Torn] = None,
        report_every_s: float = REPORT_EVERY_S,
    ) -> None:
        self._began_at = time.time()
        self._events = events
        self._logs = logs
        self._reports = reports
        self._tree = tree
        self._torn = torn
        self.torn: Optional[Mapping[str, int]] = None
        """After the close: the torn files (see `Torn.paths`); None: unknown."""
        self._report_every_s = report_every_s
        self._reports_too_long = self._has_reports = False
        self._output_seen = False
        self._read_seen = False
        self._checkpoint_at: Optional[float] = None
        self._reported_at: Optional[float] = None
        self._report_due = 0.0
        self._doubtful_at: Optional[float] = None
        self._closed_at: Optional[float] = None
        self._leave_began = False
        self._closed_tree: Optional[Tree] = None

    def look(self, *, writers_done: bool = False) -> None:
        """Process new events; called while the runner is awake."""
        self._look_at_reports()
        self._look_for_output()
        if self._tree is None:
            return
        self._look_at_tree(self._tree, writers_done=writers_done)
        if not self._leave_began and self._doubtful_at and time.time() - self._doubtful_at >= DOUBT_S:
            self._believe(self._doubtful_at)
        if time.monotonic() >= self._report_due:
            self._report_checkpoint(self._tree)

    def fileno(self) -> int:
        """A descriptor that is readable after a change of a checkpoint; -1 if there is none."""
        return -1 if self._tree is None else self._tree.fileno()

    def before_leaving(self) -> None:
        """Note, before a request to leave, that workers closed the files so far by themselves."""
        if self._torn is not None:
            self._torn.look_at_processes(before_signal=True)
        if not self._leave_began:
            self.look()
            self._believe(self._closed_at)
            self._leave_began = True

    def note_exit(self, *, good: bool) -> None:
        """Note a worker's exit, which closed its files: they are certainly complete only with exit code 0."""
        self.look(writers_done=good)
        if good:
            self._believe(self._closed_at)
        else:
            self._doubtful_at = self._closed_at = None

    def close(self) -> None:
        """Note the end of all workers: later reads are not theirs."""
        self._look_at_reports()
        if self._tree is not None:
            self._look_at_tree(self._tree, writers_done=False)
            self._report_checkpoint(self._tree)
            if self._torn is not None and self._tree.complete:
                self.torn = self._torn.paths()
            self._tree, self._closed_tree = None, self._tree

    def release(self) -> None:
        """Release the watches if this process continues."""
        if self._closed_tree is not None:
            self._closed_tree.close()

    def _look_at_reports(self) -> None:
        """Notify the user, once, of reports beyond the limit of the server."""
        if self._reports_too_long:
            return
        found = untrusted.lstat(self._reports)
        self._has_reports = found is not None
        if found is not None and found.st_size > protocol.LONGEST_REPORTS_BYTES:
            self._reports_too_long = True
            most = protocol.LONGEST_REPORTS_BYTES >> 20
            text = f"its workers on this node reported more than {most} MiB: what comes after is left out"
            self._events.notice(text)

    def _look_at_tree(self, tree: Tree, *, writers_done: bool) -> None:
        def more() -> list[Change]:
            self._take(tree.look())
            return tree.changes()

        self._take(tree.look(writers_done=writers_done))
        if self._torn is not None:
            self._torn.take(tree.changes(), more)

    def _take(self, seen: Glimpse) -> None:
        if seen.shown_at is not None:
            self._checkpoint_at = seen.shown_at
        if seen.closed_at is not None:
            self._closed_at = seen.closed_at
            self._doubtful_at = self._doubtful_at or seen.closed_at
        if seen.read_at is not None and not self._read_seen:
            self._read_seen = True
            self._events.append("checkpoint_read", at=round(seen.read_at, 6))

    def _believe(self, closed_at: Optional[float]) -> None:
        """Accept files closed by this time as complete; later ones remain in doubt."""
        if closed_at is not None:
            self._checkpoint_at = max(self._checkpoint_at or 0.0, closed_at)
            self._doubtful_at = self._closed_at if self._closed_at != closed_at else None
            self._closed_at = self._doubtful_at

    def _report_checkpoint(self, tree: Tree) -> None:
        if self._checkpoint_at is not None and self._checkpoint_at != self._reported_at:
            self._reported_at = self._checkpoint_at
            self._report_due = time.monotonic() + self._report_every_s
            step = _latest_step(tree.root, self._began_at)
            detail = {} if step is None else {"step": step}
            self._events.append("checkpoint", at=round(self._checkpoint_at, 6), **detail)

    def _look_for_output(self) -> None:
        if self._output_seen:
            return
        reports = [self._reports] if self._has_reports else []
        times = (*map(_written_at, self._logs), *map(_first_report_at, reports))
        found = [at for at in times if at is not None]
        if found:
            self._output_seen = True
            self._events.append("first_output", at=round(min(found), 6))


def _latest_step(root: str, since: float) -> Optional[int]:
    """The step of the SDK's latest checkpoint, if it was made since then."""
    link = os.path.join(root, protocol.LATEST)
    with suppress(OSError):
        found = protocol.STEP.fullmatch(os.readlink(link)) if os.lstat(link).st_mtime >= since else None
        return int(found[1]) if found else None
    return None


def _written_at(path: str) -> Optional[float]:
    """The time of a file's last write; None if it is empty or missing."""
    with suppress(OSError):
        found = os.stat(path)
        return found.st_mtime if found.st_size > 0 else None
    return None


def _first_report_at(path: str) -> Optional[float]:
    """The time of the SDK's first report, according to that report."""
    with suppress(OSError, ValueError, KeyError, TypeError, OverflowError):
        line = untrusted.read_part(path, 0, _FIRST_BYTES).partition(b"\n")[0]
        return float(untrusted.parse_object(line)["at"])
    return None
