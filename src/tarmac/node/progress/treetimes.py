"""Observes workers' use of checkpoints by the times of files. Called by `progress` without `treewatch`.

This is weaker than `treewatch`: a disk without access times never shows that a file was read.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from typing import Iterator, NamedTuple, Optional

from tarmac.node.progress.tree import Change, Glimpse, walk

_AGAIN_S = 5.0


class _Times(NamedTuple):
    """The times that reveal a change or a read of a file."""

    inode: int
    changed_at: float
    written_ns: int
    read_ns: int
    link: bool
    empty: bool


class TreeTimes:
    """The tree below `root`, observed from now on."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._before = dict(_files(root))
        self._newest = 0.0
        self._due = time.monotonic() + _AGAIN_S

    complete = False
    """Changes of single files are unknown."""

    def fileno(self) -> int:
        """-1: there is no descriptor to wait for."""
        return -1

    def changes(self) -> list[Change]:
        """An empty list: changes are unknown."""
        return []

    def look(self, *, writers_done: bool = False) -> Glimpse:
        """The events since the last call; walks the tree only at intervals, and with `writers_done`."""
        return self.finish() if writers_done or time.monotonic() >= self._due else Glimpse()

    def close(self) -> None:
        """Do nothing: no resource is held."""

    def finish(self) -> Glimpse:
        """The events at the end."""
        self._due = time.monotonic() + _AGAIN_S
        shown: Optional[float] = None
        closed: Optional[float] = None
        read: Optional[float] = None
        for path, now in _files(self._root):
            before = self._before.get(path)
            if before is not None and (before.inode, before.written_ns) == (now.inode, now.written_ns):
                if now.read_ns > before.read_ns and not now.link:
                    read = min(read or now.read_ns / 1e9, now.read_ns / 1e9)
            elif now.changed_at > self._newest and not now.empty:
                if now.link:
                    shown = max(shown or 0.0, now.changed_at)
                else:
                    closed = max(closed or 0.0, now.changed_at)
        self._newest = max(self._newest, shown or 0.0, closed or 0.0)
        return Glimpse(shown, closed, read)


def _files(root: str) -> Iterator[tuple[str, _Times]]:
    for _, entries in walk(root):
        for entry in entries:
            with suppress(OSError):
                found = os.lstat(entry.path)
                if stat.S_ISDIR(found.st_mode):
                    continue
                link = stat.S_ISLNK(found.st_mode)
                empty = found.st_size == 0
                yield (
                    entry.path,
                    _Times(found.st_ino, found.st_ctime, found.st_mtime_ns, found.st_atime_ns, link, empty),
                )
