"""Reads file contents once: hashes, copies, and a cache of the hashes.

Called by `store.py`, and by a client that sends a directory. A big unchanged tree is not read again: its
hashes are cached by the file system's metadata of each file.
"""

import contextlib
import hashlib
import json
import os
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock

from tarmac.artifacts.code.tree import Entry, Kind
from tarmac.node.files import untrusted

CHUNK_BYTES = 1 << 20
SETTLED_NS = 2_000_000_000
"""A file changed more recently may change again within one tick of the file system's clock."""

REMEMBERED_TREES = 16

_Known = dict[str, tuple[tuple[int, ...], str]]


class Vanished(Exception):
    """A file disappeared or changed its type while the tree was being read: scan again."""


class Unreadable(Exception):
    """A file cannot be read; `path` and `error` give the file and the reason."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(str(error))
        self.path = path
        self.error = error


def hash_file(path: Path, write: Callable[[bytes], object] = lambda _chunk: None) -> str:
    """The hash of a file's content; each chunk is also passed to `write`."""
    digest = hashlib.sha256()
    for chunk in chunks(path):
        digest.update(chunk)
        write(chunk)
    return digest.hexdigest()


def chunks(path: Path) -> Iterator[bytes]:
    """The content of a regular file; a link or FIFO in its place is never followed nor waited for."""
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
    """The hashes of the last read trees, by file. Thread-safe: a tree's hashes are replaced as a whole.

    With a directory, the cache survives the process: one file for each tree, replaced as a whole. If writing
    there fails, the hashes are not cached, and if reading fails, the tree is read again.
    """

    def __init__(self, directory: Path | None = None) -> None:
        self._directory = directory
        self._trees: OrderedDict[Path, _Known] = OrderedDict()
        self._lock = Lock()

    def known(self, root: Path, entries: Iterable[Entry]) -> dict[str, str]:
        """The hashes, by path, of the files that are unchanged since their reading."""
        with self._lock:
            known = self._trees.get(root)
        if known is None:
            known = _load(self._directory, root) if self._directory is not None else {}
        return {
            entry.path: known[entry.path][1]
            for entry in entries
            if entry.kind is Kind.FILE and entry.path in known and known[entry.path][0] == entry.stamp
        }

    def remember(self, root: Path, entries: Iterable[Entry], hashes: Mapping[str, str]) -> None:
        """Cache the hashes of files, except files that may change again undetected."""
        settled_ns = time.time_ns() - SETTLED_NS
        known = {
            entry.path: (entry.stamp, hashes[entry.path])
            for entry in entries
            if entry.kind is Kind.FILE and entry.changed_ns < settled_ns
        }
        with self._lock:
            self._trees[root] = known
            self._trees.move_to_end(root)
            while len(self._trees) > REMEMBERED_TREES:
                self._trees.popitem(last=False)
        if self._directory is not None:
            with contextlib.suppress(OSError):
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
                text = json.dumps(known, separators=(",", ":"))
                untrusted.replace(str(_file_of(self._directory, root)), text.encode(), mode=0o600)

    def hashes(self, root: Path, entries: Sequence[Entry]) -> dict[str, str]:
        """The hash of every file among the entries; only possibly changed files are read."""
        known = self.known(root, entries)
        hashes = {
            entry.path: known.get(entry.path) or hash_file(entry.under(root))
            for entry in entries
            if entry.kind is Kind.FILE
        }
        if len(known) < len(hashes):
            self.remember(root, entries, hashes)
        return hashes


def _file_of(directory: Path, root: Path) -> Path:
    return directory / f"{hashlib.sha256(os.fsencode(root)).hexdigest()[:32]}.json"


def _load(directory: Path, root: Path) -> _Known:
    try:
        read = json.loads(_file_of(directory, root).read_bytes())
        return {path: (tuple(stamp), content) for path, (stamp, content) in read.items()}
    except (OSError, ValueError, AttributeError, TypeError):
        return {}
