"""Walks a directory tree of checkpoints within bounds, and compares the times of its files.

Called by `treewatch` and `watcher`. A tree may contain a whole data set: files beyond the bounds are omitted,
and the result is then incomplete. `TreeTimes` serves without `treewatch`, and is weaker: a disk without
access times never shows that a file was read.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from contextlib import suppress
from typing import Iterator, NamedTuple, Optional

from tarmac.node.attempt import protocol

MOST_DIRECTORIES = 1_000
MOST_NAMES = 50_000

_AGAIN_S = 5.0


class Glimpse(NamedTuple):
    """The events in a tree since the last call.

    `shown_at`: something became visible complete (renamed into place, or linked). `closed_at`: a file was
    closed after writing. `read_at`: something that existed at the start was read.
    """

    shown_at: Optional[float] = None
    closed_at: Optional[float] = None
    read_at: Optional[float] = None


OPENED, CLOSED, SHOWN, FOUND, NAMED = "opened", "closed", "shown", "found", "named"


class Change(NamedTuple):
    """One change in a tree: a file was opened (or made), closed after writing, or appeared complete.

    FOUND: it existed when the watch on its directory began; it may have been closed before, or may be closed
    again. NAMED: a name was made, moved or removed, which only a living process does.
    """

    what: str
    path: str


def walk(
    root: str, *, most_directories: int = MOST_DIRECTORIES, most_names: int = MOST_NAMES
) -> Iterator[tuple[str, list[os.DirEntry[str]]]]:
    """Every directory of the tree with its entries, outer ones first, without unfinished ones."""
    waiting, directories, names = deque([root]), 1, 0
    while waiting and names < most_names:
        directory = waiting.popleft()
        try:
            with os.scandir(directory) as found:
                entries = [entry for entry in found if not unfinished(entry.name)]
        except OSError:
            continue  # removed since, or not readable
        names += len(entries)
        yield directory, entries
        for entry in entries:
            if directories < most_directories and entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
                directories += 1


def unfinished(name: str) -> bool:
    """Whether the SDK is preparing or removing this entry, or it contains torn files."""
    return name.startswith(protocol.UNFINISHED) or name == protocol.TORN


class TreeTimes:
    """The tree below `root`, observed from now on."""

    def __init__(self, root: str) -> None:
        self.root = root
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
        if not writers_done and time.monotonic() < self._due:
            return Glimpse()
        self._due = time.monotonic() + _AGAIN_S
        shown: Optional[float] = None
        closed: Optional[float] = None
        read: Optional[float] = None
        for path, now in _files(self.root):
            before = self._before.get(path)
            is_link = stat.S_ISLNK(now.st_mode)
            if before and (before.st_ino, before.st_mtime_ns) == (now.st_ino, now.st_mtime_ns):
                if now.st_atime_ns > before.st_atime_ns and not is_link:
                    read = min(read or now.st_atime_ns / 1e9, now.st_atime_ns / 1e9)
            elif now.st_ctime > self._newest and now.st_size > 0:
                if is_link:
                    shown = max(shown or 0.0, now.st_ctime)
                else:
                    closed = max(closed or 0.0, now.st_ctime)
        self._newest = max(self._newest, shown or 0.0, closed or 0.0)
        return Glimpse(shown, closed, read)

    def close(self) -> None:
        """Do nothing: no resource is held."""


def _files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    for _, entries in walk(root):
        for entry in entries:
            with suppress(OSError):
                found = os.lstat(entry.path)
                if not stat.S_ISDIR(found.st_mode):
                    yield entry.path, found
