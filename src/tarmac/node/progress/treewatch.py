"""What workers do with checkpoints, as the kernel reports it when it happens. Called by `progress`.

A listing, a stat or reading a link does not count as reading, nor does reading what this attempt wrote
itself.
"""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from tarmac.node.kernel.inotify import Happening, Inotify
from tarmac.node.kernel.syscalls import (
    IN_ACCESS,
    IN_CLOSE_NOWRITE,
    IN_CLOSE_WRITE,
    IN_CREATE,
    IN_DELETE,
    IN_IGNORED,
    IN_ISDIR,
    IN_MOVED_FROM,
    IN_MOVED_TO,
    IN_OPEN,
    IN_Q_OVERFLOW,
)
from tarmac.node.progress.tree import (
    CLOSED,
    FOUND,
    MOST_DIRECTORIES,
    NAMED,
    OPENED,
    SHOWN,
    Change,
    Glimpse,
    unfinished,
    walk,
)

_NAMES = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO
_CHANGES = _NAMES | IN_CLOSE_WRITE | IN_OPEN
_SHOWN, _CLOSED, _READ = "shown", "closed", "read"
_READS = IN_ACCESS | IN_CLOSE_NOWRITE  # the second alone tells of a file that is mapped into memory


class _Place:
    """A watched directory. `old` are the names in it that were there before this attempt and still are."""

    def __init__(self, path: str, old: set[str]) -> None:
        self.path = path
        self.old = old


class TreeWatch:
    """The tree below `root` from now on. Raises OSError where it cannot be watched."""

    def __init__(self, root: str) -> None:
        self._inotify = Inotify()
        self._places: dict[int, _Place] = {}
        self._moving: set[int] = set()
        self._seen: set[str] = set()
        self._found: dict[str, tuple[int, int]] = {}
        self._changes: list[Change] = []
        self.complete = True
        """Whether every change was told: the kernel's queue and its watches have an end."""
        try:
            for directory, entries in walk(root):
                self._watch(directory, {entry.name for entry in entries})
            if not self._places:
                raise FileNotFoundError(root)
        except OSError:
            if not self._places:
                self._inotify.close()
                raise
            # The kernel gives this user no more watches: what is watched already must do.
            self.complete = False

    def look(self, *, writers_done: bool = False) -> Glimpse:
        """What happened since the last look; `writers_done`: nobody is in the middle of writing."""
        now = time.time()
        self._seen = set()
        self._look_at_found(writers_done=writers_done)
        for event in self._inotify.happened():
            self.complete = self.complete and not event.mask & IN_Q_OVERFLOW
            place = self._places.get(event.watch)
            if place is not None:
                self._take(place, event)
        if writers_done:
            self._look_at_found(writers_done=True)
        if _READ in self._seen:
            self._watch_changes_only()
        return Glimpse(*(now if what in self._seen else None for what in (_SHOWN, _CLOSED, _READ)))

    def fileno(self) -> int:
        """What becomes readable when something happens."""
        return self._inotify.fileno()

    def changes(self) -> list[Change]:
        """The changes to files since the last call, in order, as far as `look` has seen them."""
        found, self._changes = self._changes, []
        return found

    def finish(self) -> Glimpse:
        """The last look. What is held is left to the end of the process: see `close`."""
        return self.look()

    def close(self) -> None:
        """Stop watching, for whoever lives on. It takes the kernel milliseconds: a short run feels them."""
        self._inotify.close()

    def _take(self, place: _Place, event: Happening) -> None:
        mask, name = event.mask, event.name
        if mask & _NAMES:
            self._changes.append(Change(NAMED, os.path.join(place.path, name)))
        if mask & IN_IGNORED:
            del self._places[event.watch]  # the directory is gone
        elif unfinished(name) and not mask & IN_MOVED_FROM:
            place.old.discard(name)
        elif mask & (IN_MOVED_FROM | IN_MOVED_TO):
            if self._note_move(place, event) and _holds_something(place, name):
                self._seen.add(_SHOWN)
            if mask & IN_MOVED_TO:
                self._changes.append(Change(SHOWN, os.path.join(place.path, name)))
        elif mask & IN_ISDIR:
            if mask & IN_CREATE:
                self._watch_new(os.path.join(place.path, name))
        elif mask & IN_OPEN:
            self._changes.append(Change(OPENED, os.path.join(place.path, name)))
        elif mask & (IN_CREATE | IN_CLOSE_WRITE):
            place.old.discard(name)
            self._note_file(os.path.join(place.path, name), closed=bool(mask & IN_CLOSE_WRITE))
            if mask & IN_CREATE:
                if os.path.islink(os.path.join(place.path, name)):
                    self._seen.add(_SHOWN)
            elif _holds_something(place, name):
                self._found.pop(os.path.join(place.path, name), None)
                self._seen.add(_CLOSED)
        elif mask & _READS and name in place.old:
            self._seen.add(_READ)

    def _note_file(self, path: str, *, closed: bool) -> None:
        """A file was closed, or there is a new name: of a new file, or of one that has others."""
        if closed:
            self._changes.append(Change(CLOSED, path))
            return
        with suppress(OSError):
            if os.lstat(path).st_nlink > 1:
                self._changes.append(Change(SHOWN, path))

    def _note_move(self, place: _Place, event: Happening) -> bool:
        """Half of a rename; True when it made something visible that was not there at the start."""
        if event.mask & IN_MOVED_FROM:
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
        if event.mask & IN_ISDIR:
            self._watch_new(os.path.join(place.path, event.name))
        return not was_old

    def _watch_new(self, root: str) -> None:
        """Watch a directory that came later. What is in it already may be whole, or still be written."""
        try:
            for directory, entries in walk(root):
                if len(self._places) >= MOST_DIRECTORIES:
                    self.complete = False
                    return
                if self._watch(directory, set()):
                    self._found.update((entry.path, _size_and_time(entry.path)) for entry in entries)
                    self._changes += [Change(FOUND, entry.path) for entry in entries]
        except FileNotFoundError:
            pass  # gone again
        except OSError:
            self.complete = False  # no more watches

    def _look_at_found(self, *, writers_done: bool) -> None:
        """Files of a directory that was there before its watch: whole once they have stopped to change."""
        for path, before in list(self._found.items()):
            now = _size_and_time(path)
            if now == before or writers_done:
                del self._found[path]
                if now[0] > 0:
                    self._seen.add(_CLOSED)
            else:
                self._found[path] = now

    def _watch(self, directory: str, old: set[str]) -> bool:
        """Watch a directory; False for one watched under another name: what is known of it is kept."""
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
        """It is known that something was read: spare the kernel the reports of every further reading."""
        for place in self._places.values():
            if place.old:
                place.old = set()
                with suppress(OSError):
                    self._inotify.watch(place.path, _CHANGES)


def _size_and_time(path: str) -> tuple[int, int]:
    """Of a regular file; (0, 0) for what is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return 0, 0
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else (0, 0)


def _holds_something(place: _Place, name: str) -> bool:
    """Whether it is still there, and no empty file."""
    try:
        found = os.lstat(os.path.join(place.path, name))
    except OSError:
        return False
    return not stat.S_ISREG(found.st_mode) or found.st_size > 0
