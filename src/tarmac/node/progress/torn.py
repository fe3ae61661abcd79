"""Finds torn files: incomplete because a signal ended the process that wrote them. Called by `progress`.

The kernel closes the files of a process that ends, and reports that like any other closing. Therefore each
closing is compared with the living processes. If all processes that may have had the file open are alive, one
of them closed the file, and it is complete. For an ending process the answer waits: a process that exits by
itself has finished its files, one ended by a signal has not. A file that is renamed or linked afterwards is
complete, because only a living process does that. If one process made all changes, each file that it closed
before it last made, moved or removed a name is complete: the process was alive after closing the file.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import contextmanager, suppress
from typing import Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Set

from tarmac.node.files import untrusted
from tarmac.node.kernel import procfs
from tarmac.node.kernel.procfs import FileId, Process, open_for_writing
from tarmac.node.processes.children import Children
from tarmac.node.progress.tree import CLOSED, FOUND, NAMED, OPENED, SHOWN, Change, walk

_LOOK_FOR_OTHERS_S = 30.0
_MOST_OPENED = 1_000
_SURVIVED_S = 10.0
"""Files torn this long before the end are the run's own matter: other processes continued with them."""
_NEVER_SEEN = -1
"""The start time of a process that ended before it was seen."""
_SHARE = 0.1
_MOST_SPENT_S = 0.5
"""The maximum share of time for finding processes and their files, after an initial amount."""


class Torn:
    """Follows the files below `root` and the processes that may write them, from before the first starts."""

    def __init__(self, root: str, children: Children, *, shared: bool = False) -> None:
        """`shared`: processes of other runners on this machine also write there."""
        self._root = root
        self._shared = shared
        self._children = children
        self._known: Set[Process] = set()
        self._leaving: Set[Process] = set()
        self._over: Set[Process] = set()
        self._recipients: Set[Process] = set()
        self._opened: Dict[FileId, Set[Process]] = {}
        self._opened_bytes: Dict[FileId, int] = {}
        self._writers: Dict[FileId, Set[int]] = {}
        self._appended: Set[FileId] = set()
        self._pending: Dict[FileId, Set[Process]] = {}
        self._torn: Dict[FileId, float] = {}
        self._signal_at: Optional[float] = None
        self._looked_at = time.monotonic()
        self._budget = Budget(_SHARE, most_s=_MOST_SPENT_S)
        self._look_due = False
        children.take_ends()  # processes that ended before wrote nothing here

    def take(self, changes: List[Change], more: Callable[[], List[Change]]) -> None:
        """Process changes to files; `more` returns later changes.

        The order matters: processes that are alive now were alive during everything in `changes`.
        """
        ends = self._children.take_ends()
        fates = {process: self._fate(process, ends) for process in self._known}
        for pid in ends.keys() - {process.pid for process in self._known | self._over}:
            fates[Process(pid, _NEVER_SEEN)] = procfs.STRUCK if ends[pid] else procfs.EXITED
        struck = {process for process, fate in fates.items() if fate == procfs.STRUCK}
        over = struck | {process for process, fate in fates.items() if fate == procfs.EXITED}
        if over:
            changes = changes + more()  # their files were closed before they were seen to have ended
        leaving = {process for process, fate in fates.items() if fate == procfs.LEAVES}
        vouched = 0  # the number of changes before the last change of a name
        if struck | leaving and self._is_alone(fates):
            vouched = max((number for number, each in enumerate(changes) if each.what == NAMED), default=0)
        self._known -= over
        seen = {each for each in self._over | over if each.start_ticks != _NEVER_SEEN}
        self._over = {each for each in seen if procfs.fate(each) != procfs.GONE}
        for number, change in enumerate(changes):
            if change.what == CLOSED and number < vouched:
                self._take_one(change, set(), set())
            else:
                self._take_one(change, struck, leaving)
        self._settle_pending(over, struck)
        self._leaving = leaving
        late = time.monotonic() >= self._looked_at + _LOOK_FOR_OTHERS_S
        self._look_due = self._look_due or bool(changes) or late
        if self._look_due and self._budget.is_left():
            self.look_at_processes()

    def look_at_processes(self, *, before_signal: bool = False) -> None:
        """Find all living processes and their open files; `before_signal`: a signal to leave follows."""
        with self._budget.spending():
            self._known |= set(self._children.living())
            self._look_for_writers()
        self._looked_at, self._look_due = time.monotonic(), False
        if before_signal:
            self._recipients = set(self._known)
            self._signal_at = self._signal_at or time.monotonic()

    def paths(self) -> Dict[str, int]:
        """The existing torn files, by paths below the root, after the end of all processes.

        Each with its size when it was last opened: a file truncated then is smaller than before.
        """
        now = time.monotonic()
        since = (self._signal_at or now) - _SURVIVED_S
        torn = {file_id for file_id, at in self._torn.items() if at >= since} | set(self._pending)
        if not torn:
            return {}
        found = {entry.path: _file_id(entry.path) for _, entries in walk(self._root) for entry in entries}
        return {
            os.path.relpath(path, self._root): self._opened_bytes.get(file_id, 0)
            for path, file_id in sorted(found.items())
            if file_id is not None and file_id in torn
        }

    # --- changes of files

    def _take_one(self, change: Change, struck: Set[Process], leaving: Set[Process]) -> None:
        if change.what == SHOWN:
            for moved in _ids_below(change.path):
                self._is_whole(moved)
            return
        file_id = _file_id(change.path)
        if file_id is None:
            return  # gone or renamed: a later change reports that
        if change.what in (CLOSED, FOUND):
            self._take_closing(file_id, struck, leaving)
        if change.what in (OPENED, FOUND):
            self._opened[file_id] = set(self._leaving)  # a process that was already leaving has not opened it
            self._writers.pop(file_id, None)
            with suppress(OSError):  # the smallest size since the last closing: a reader may also open it
                size_bytes = os.lstat(change.path).st_size
                self._opened_bytes[file_id] = min(size_bytes, self._opened_bytes.get(file_id, size_bytes))

    def _take_closing(self, file_id: FileId, struck: Set[Process], leaving: Set[Process]) -> None:
        suspects = (struck | leaving) - self._opened.pop(file_id, set())
        writers = self._writers.pop(file_id, None)
        if file_id in self._appended:  # an appended file is valid up to its end
            suspects.clear()
            self._appended.discard(file_id)
        if writers:
            suspects = {process for process in suspects if process.pid in writers}
        self._is_whole(file_id)
        if suspects & struck:
            self._torn[file_id] = time.monotonic()
        elif suspects:
            self._pending[file_id] = suspects
        else:
            self._opened_bytes.pop(file_id, None)

    def _settle_pending(self, over: Set[Process], struck: Set[Process]) -> None:
        for file_id, suspects in list(self._pending.items()):
            if suspects & struck:
                self._torn[file_id] = time.monotonic()
            suspects.difference_update(over)
            if not suspects:
                del self._pending[file_id]

    def _is_whole(self, file_id: FileId) -> None:
        self._torn.pop(file_id, None)
        self._pending.pop(file_id, None)

    # --- living processes

    def _fate(self, process: Process, ends: Mapping[int, bool]) -> str:
        fate = procfs.fate(process)
        if fate != procfs.GONE:
            return fate
        # If another process waited for it (torchrun for its workers, a shell for `cp`), its end is unknown.
        return procfs.STRUCK if ends.get(process.pid, process in self._recipients) else procfs.EXITED

    def _is_alone(self, since: Iterable[Process]) -> bool:
        """Whether one process alone made all changes `since` the last call: no other was or is alive."""
        pids = {process.pid for process in since}
        if self._shared or len(pids) > 1:
            return False
        below = self._children.living(unreaped=True)
        return pids.issuperset(process.pid for process in below)

    def _look_for_writers(self) -> None:
        by_file = open_for_writing((process.pid for process in self._known), self._opened.keys())
        for file_id, writers in by_file.items():
            self._writers[file_id] = set(writers)
            if all(writers.values()):
                self._appended.add(file_id)
        if len(self._opened) > _MOST_OPENED:  # most were only read, and no event reports the end of that
            self._opened = {
                file_id: leaving for file_id, leaving in self._opened.items() if file_id in by_file
            }
            known = self._opened.keys() | self._torn.keys() | self._pending.keys()
            self._opened_bytes = {each: self._opened_bytes.get(each, 0) for each in known}


def _file_id(path: str) -> Optional[FileId]:
    """The identity of a file; None for other entries, or if it is gone."""
    found = untrusted.lstat(path)
    return (found.st_dev, found.st_ino) if found and stat.S_ISREG(found.st_mode) else None


def _ids_below(path: str) -> Iterable[FileId]:
    """The file at a path, or every file of the directory there."""
    if not os.path.isdir(path) or os.path.islink(path):
        paths = [path]
    else:
        paths = [entry.path for _, entries in walk(path) for entry in entries]
    return [file_id for file_id in map(_file_id, paths) if file_id is not None]


class Budget:
    """At most `share` of the time; unspent time is saved, up to `most_s`."""

    def __init__(self, share: float, *, most_s: float) -> None:
        self._share = share
        self._most_s = most_s
        self._left_s = most_s
        self._counted_at = time.monotonic()

    def is_left(self) -> bool:
        """Whether any time may be spent now."""
        now = time.monotonic()
        self._left_s = min(self._left_s + (now - self._counted_at) * self._share, self._most_s)
        self._counted_at = now
        return self._left_s > 0

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Count the CPU time inside the context as spent."""
        began = time.thread_time()
        try:
            yield
        finally:
            self._left_s -= time.thread_time() - began
