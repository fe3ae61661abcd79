"""Reading file content once: hashes, copies, and what is remembered of both.

Called by `code.py`. A big tree that has not changed is not read again: its hashes are remembered by what
the file system says of each file.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from threading import Lock

from tarmac.artifacts.tree import Entry, Kind

CHUNK_BYTES = 1 << 20
SETTLED_NS = 2_000_000_000
"""A file changed more recently than this may change again within one tick of the file system's clock."""

REMEMBERED_TREES = 16


class Vanished(Exception):
    """A file went away or became something else while the tree was being read: scan again."""


class Unreadable(Exception):
    """A file cannot be read; `path` and `error` say which and why."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(str(error))
        self.path = path
        self.error = error


def hash_file(path: Path, write: Callable[[bytes], object] = lambda _chunk: None) -> str:
    """The hash of a file's content, each chunk of which is also handed to `write`."""
    digest = hashlib.sha256()
    for chunk in _chunks(path):
        digest.update(chunk)
        write(chunk)
    return digest.hexdigest()


def tree_digest(entries: Iterable[Entry], hashes: Mapping[str, str]) -> str:
    """The name of a snapshot: a hash over kind, mode, path and content of every entry, in order."""
    digest = hashlib.sha256(b"tarmac code 1")
    for entry in entries:
        content = hashes[entry.path] if entry.kind is Kind.FILE else entry.target
        for part in (entry.kind.value, f"{entry.mode:o}", entry.path, content):
            encoded = os.fsencode(part)
            digest.update(b"%d:" % len(encoded))
            digest.update(encoded)
    return digest.hexdigest()


class HashMemory:
    """The hashes of the trees read last, by file. Thread-safe: a tree's memory is replaced whole."""

    def __init__(self) -> None:
        self._trees: OrderedDict[Path, dict[str, tuple[tuple[int, ...], str]]] = OrderedDict()
        self._lock = Lock()

    def hashes(self, root: Path, entries: Iterable[Entry]) -> dict[str, str]:
        """The hash of every file among the entries; only what may have changed is read."""
        with self._lock:
            known = self._trees.get(root, {})
        began_ns = time.time_ns()
        hashes: dict[str, str] = {}
        settled: dict[str, tuple[tuple[int, ...], str]] = {}
        for entry in entries:
            if entry.kind is not Kind.FILE:
                continue
            stamp, remembered = known.get(entry.path, ((), ""))
            value = remembered if stamp == entry.stamp else hash_file(root / entry.path)
            hashes[entry.path] = value
            if entry.changed_ns < began_ns - SETTLED_NS:
                settled[entry.path] = (entry.stamp, value)
        with self._lock:
            self._trees[root] = settled
            self._trees.move_to_end(root)
            while len(self._trees) > REMEMBERED_TREES:
                self._trees.popitem(last=False)
        return hashes


def _chunks(path: Path) -> Iterator[bytes]:
    """The content of a regular file; a link or FIFO put in its place is never followed nor waited for."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if isinstance(error, PermissionError):
            raise Unreadable(path, error) from None
        raise Vanished(str(path)) from None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Vanished(str(path))
        while chunk := os.read(descriptor, CHUNK_BYTES):
            yield chunk
    except OSError as error:
        raise Unreadable(path, error) from None
    finally:
        os.close(descriptor)
