"""Observes workers' use of a directory tree of checkpoints, by events of the kernel or by times of files.

Called by `watcher` and `torn`. A tree may contain a whole data set: files beyond the bounds of `walk` are
omitted, and the result is then incomplete. `TreeTimes` serves where `TreeWatch` is impossible, and is weaker:
a disk without access times never shows that a file was read.

Listing, stat and reading a link do not count as reads, nor do reads of this attempt's own files.
"""

from __future__ import annotations

import os
import stat
import time
from collections import deque
from contextlib import suppress
from typing import Iterator, NamedTuple, Optional

from tarmac.node.attempt import protocol
from tarmac.node.files import untrusted
from tarmac.node.kernel import syscalls

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


_NAMES = syscalls.IN_CREATE | syscalls.IN_DELETE | syscalls.IN_MOVED_FROM | syscalls.IN_MOVED_TO
_CHANGES = _NAMES | syscalls.IN_CLOSE_WRITE | syscalls.IN_OPEN
_READ = "read"
_READS = (
    syscalls.IN_ACCESS | syscalls.IN_CLOSE_NOWRITE
)  # the second alone reports a file that is mapped into memory

STILL_S = 0.25
"""A file that was found counts as complete after it has not changed for this time."""


class _Place:
    """A watched directory. `old` are the names that existed before this attempt and still do."""

    def __init__(self, path: str, old: set[str]) -> None:
        self.path = path
        self.old = old


class TreeWatch:
    """The tree below `root`, watched from now on. Raises OSError if it cannot be watched."""

    def __init__(self, root: str) -> None:
        self.root = root
        self._inotify = syscalls.Inotify()
        self._places: dict[int, _Place] = {}
        self._moving: set[int] = set()
        self._seen: set[str] = set()
        self._found: dict[str, tuple[tuple[int, int], float]] = {}
        self._changes: list[Change] = []
        self.complete = True
        """Whether every change was reported: the kernel's queue and its watches are limited."""
        try:
            for directory, entries in walk(root):
                self._watch(directory, {entry.name for entry in entries})
            if not self._places:
                raise FileNotFoundError(root)
        except OSError:
            if not self._places:
                self._inotify.close()
                raise
            # The kernel gives this user no more watches: the existing ones must suffice.
            self.complete = False

    def look(self, *, writers_done: bool = False) -> Glimpse:
        """The events since the last call; `writers_done`: no process is writing."""
        now = time.time()
        self._seen = set()
        self._look_at_found(writers_done=writers_done)
        for event in self._inotify.happened():
            self.complete = self.complete and not event.mask & syscalls.IN_Q_OVERFLOW
            place = self._places.get(event.watch)
            if place is not None:
                self._take(place, event)
        if writers_done:
            self._look_at_found(writers_done=True)
        if _READ in self._seen:
            self._watch_changes_only()
        return Glimpse(*(now if what in self._seen else None for what in (SHOWN, CLOSED, _READ)))

    def fileno(self) -> int:
        """A descriptor that is readable after an event."""
        return self._inotify.fileno()

    def changes(self) -> list[Change]:
        """The changes to files since the last call, in order, up to the last `look`."""
        found, self._changes = self._changes, []
        return found

    def move(self, root: str) -> None:
        """Watch the same directory after it has moved; it has been empty all the time."""
        for _ in self._inotify.happened():
            pass  # somebody listed it
        for place in self._places.values():
            place.path = root
        self.root = root

    def close(self) -> None:
        """Stop watching, for a process that continues. It takes milliseconds: expensive for a short run."""
        self._inotify.close()

    def _take(self, place: _Place, event: syscalls.Happening) -> None:
        mask, name, path = event.mask, event.name, os.path.join(place.path, event.name)
        if mask & _NAMES:
            self._changes.append(Change(NAMED, path))
        if mask & syscalls.IN_IGNORED:
            del self._places[event.watch]  # the directory was removed
        elif unfinished(name) and not mask & syscalls.IN_MOVED_FROM:
            place.old.discard(name)
        elif mask & (syscalls.IN_MOVED_FROM | syscalls.IN_MOVED_TO):
            if self._note_move(place, event) and _holds_something(path):
                self._seen.add(SHOWN)
            if mask & syscalls.IN_MOVED_TO:
                self._changes.append(Change(SHOWN, path))
        elif mask & syscalls.IN_ISDIR:
            if mask & syscalls.IN_CREATE:
                self._watch_new(path)
        elif mask & syscalls.IN_OPEN:
            self._changes.append(Change(OPENED, path))
        elif mask & syscalls.IN_CREATE:
            place.old.discard(name)
            self._note_name(path)
        elif mask & syscalls.IN_CLOSE_WRITE:
            place.old.discard(name)
            self._changes.append(Change(CLOSED, path))
            if _holds_something(path):
                self._found.pop(path, None)
                self._seen.add(CLOSED)
        elif mask & _READS and name in place.old:
            self._seen.add(_READ)

    def _note_name(self, path: str) -> None:
        """Note that a file got a name: it is a new file, or one with other names."""
        with suppress(OSError):
            found = os.lstat(path)
            if found.st_nlink > 1:
                self._changes.append(Change(SHOWN, path))
            if stat.S_ISLNK(found.st_mode):
                self._seen.add(SHOWN)

    def _note_move(self, place: _Place, event: syscalls.Happening) -> bool:
        """Note half of a rename; True if it made something visible that did not exist at the start."""
        if event.mask & syscalls.IN_MOVED_FROM:
            if event.name in place.old:
                place.old.discard(event.name)
                self._moving.add(event.cookie)
            return False
        was_old = event.cookie in self._moving
        if was_old:
            self._moving.discard(event.cookie)
            place.old.add(event.name)
        else:
            place.old.discard(event.name)
        if event.mask & syscalls.IN_ISDIR:
            self._watch_new(os.path.join(place.path, event.name))
        return not was_old

    def _watch_new(self, root: str) -> None:
        """Watch a new directory. Its entries may be complete, or still be written."""
        try:
            for directory, entries in walk(root):
                if len(self._places) >= MOST_DIRECTORIES:
                    self.complete = False
                    return
                if self._watch(directory, set()):
                    now = time.monotonic()
                    self._found.update((entry.path, (_size_and_time(entry.path), now)) for entry in entries)
                    self._changes += [Change(FOUND, entry.path) for entry in entries]
        except FileNotFoundError:
            pass  # removed again
        except OSError:
            self.complete = False  # no more watches

    def _look_at_found(self, *, writers_done: bool) -> None:
        """Check files that existed before the watch on their directory: complete if they no longer change.

        Looks may follow each other at once, so two alike prove nothing.
        """
        for path, (before, since) in list(self._found.items()):
            found, now = _size_and_time(path), time.monotonic()
            if writers_done or (found == before and now - since >= STILL_S):
                del self._found[path]
                if found[0] > 0:
                    self._seen.add(CLOSED)
            elif found != before:
                self._found[path] = found, now

    def _watch(self, directory: str, old: set[str]) -> bool:
        """Watch a directory; False if it is watched under another name: existing facts are kept."""
        number = self._inotify.watch(directory, _CHANGES | (_READS if old else 0))
        known = self._places.get(number)
        if known is None:
            self._places[number] = _Place(directory, old)
            return True
        known.path = directory
        if known.old:
            self._inotify.watch(directory, _CHANGES | _READS)
        return False

    def _watch_changes_only(self) -> None:
        """Stop the kernel's reports of reads after the first."""
        for place in self._places.values():
            if place.old:
                place.old = set()
                with suppress(OSError):
                    self._inotify.watch(place.path, _CHANGES)


def _size_and_time(path: str) -> tuple[int, int]:
    """The size and time of a regular file; (0, 0) for other entries."""
    found = untrusted.lstat(path)
    return (found.st_size, found.st_mtime_ns) if found and stat.S_ISREG(found.st_mode) else (0, 0)


def _holds_something(path: str) -> bool:
    """Whether an entry still exists and is not an empty file."""
    found = untrusted.lstat(path)
    return found is not None and (not stat.S_ISREG(found.st_mode) or found.st_size > 0)
