"""One sync of an artifact directory: makes a new version in the store, or none.

After an interruption the pieces in the store remain there and are not sent again. The manifest comes last:
with it the version exists.
"""

from __future__ import annotations

import hashlib
import os
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

from tarmac.artifacts.versions import manifest as stored
from tarmac.artifacts.versions import quiescence, select_stable, store_lock
from tarmac.artifacts.versions.blobs import Blobs
from tarmac.artifacts.versions.logs import Logs, newest_checkpoint
from tarmac.artifacts.versions.manifest import CHUNK_BYTES, FILE, LINK, Chunk, Entry, Manifest, Version
from tarmac.artifacts.versions.quiescence import Found
from tarmac.artifacts.versions.select_stable import Ending, Look, Selection, Unstable

THREADS = 4
"""The number of pieces sent at once: each is in memory."""

_QUIET_S = 2.0
_TRIES = 10
_SPARE_HANDLES = 64
_MOST_HANDLES = 65_536
_CHECKPOINT, _CRUD = "checkpoint", "crud"


class _Moment(Unstable):
    """A file changed just now: the next try may succeed."""


class Place(NamedTuple):
    """One artifact directory of a run on a node. `seen_at` are the paths under which programs know it.

    Files bigger than `piece_bytes` are stored in pieces.
    """

    run_id: str
    attempt: int
    kind: str
    rank: int
    root: str
    seen_at: tuple[str, ...]
    piece_bytes: int = CHUNK_BYTES


class Syncer:
    """Stores one artifact directory. Used by one thread."""

    def __init__(
        self,
        blobs: Blobs,
        place: Place,
        *,
        foreign: Manifest | None = None,
        older: Manifest | None = None,
        inputs: Sequence[Manifest] = (),
        logs: Logs | None = None,
        threads: int = THREADS,
        is_full: Callable[[str], bool] = select_stable.is_full,
    ) -> None:
        """`foreign` was placed into the directory from another node, which syncs it.

        `older` is the attempt's first checkpoint in place of the newest version: only a checkpoint saved by
        the attempt supersedes it. `inputs` are the artifacts that the run starts from, while it has no
        version of its own; `logs` are those of an earlier syncer. `is_full` returns whether the disk of a
        directory is full.
        """
        self._blobs = blobs
        self._place = place
        self._strict = place.kind in (_CHECKPOINT, _CRUD)
        """Whether a version must be of one moment; other files are stored up to their present end."""
        self._foreign = {entry.path: entry for entry in foreign.entries} if foreign is not None else {}
        self._older = older
        self._inputs = inputs
        self._logs = logs or Logs(place.root)
        self._threads = threads
        self._is_full = is_full
        self.last = older
        """The version of the last sync's content, without the files that it left out."""
        self._newest: int | None = None
        self._sent: set[str] = set()
        self.left_out: tuple[str, ...] = ()
        """The files left out by the last sync: half-written ones, and those whose writer was ended."""
        self.put_back: tuple[Entry, ...] = ()
        """The entries of the previous version that remain in place of those."""
        self.restless = False
        """Whether another version may follow the last sync soon."""

    def sync(self, ending: Ending | None = None) -> Manifest | None:
        """A new version, or None if nothing changed. Raises Unstable, and Unavailable (try later)."""
        if self._newest is None:
            found = stored.latest(self._blobs, self._place.run_id, self._place.kind, self._place.rank)
            if self._older is None and found is not None:
                self.last = stored.read_manifest(self._blobs, found)
            self._newest = found.number if found is not None else 0
        for _ in range(_TRIES - 1):
            with suppress(_Moment):
                return self._sync(ending)
        return self._sync(ending)

    def _sync(self, ending: Ending | None) -> Manifest | None:
        read_at = time.time()
        selection = self._select(self._scan(), ending)
        taken, carried = selection.taken, selection.carried
        self.left_out, self.put_back, self.restless = selection.left_out, carried, selection.restless
        if not taken and not carried and not self._all_torn(selection, ending):
            return None
        if self._unchanged(taken, carried):
            return None
        with ExitStack() as opened:
            # An open file can be read to its end even after its removal, as happens to older checkpoints.
            handles = self._hold(selection, opened)
            if ending is None and self._strict and not _equal(selection, self._select(self._scan(), ending)):
                raise _Moment("its files change at this moment")
            name = f"{self._place.run_id}.{self._place.attempt}.{self._place.kind}.{self._place.rank}"
            opened.enter_context(store_lock.syncing(self._blobs, name))
            entries = self._send(selection, handles)
            entries += carried
            entries.sort(key=lambda entry: os.fsencode(entry.path))
            if self.last is not None and tuple(entries) == self.last.entries:
                self.last = self.last._replace(read_at=read_at)  # touched, with the same content
                return None
            is_checkpoint = self._place.kind == _CHECKPOINT
            saved_at, step = newest_checkpoint(self._place.root, entries) if is_checkpoint else (0.0, None)
            saved_at = round(min(read_at, saved_at), 6)
            if self._older is not None and saved_at <= self._older.saved_at:
                return None
            self.last = self._commit(
                entries, read_at=read_at, left_out=selection.left_out, saved_at=saved_at, step=step
            )
            self._older = None
        return self.last

    # --- what to take

    def _known(self) -> dict[str, Entry]:
        """The entries of the last version, by path."""
        return {entry.path: entry for entry in self.last.entries} if self.last is not None else {}

    def _scan(self) -> list[Found]:
        return [item for item in quiescence.scan(self._place.root) if not self._is_foreign(item)]

    def _select(self, found: list[Found], ending: Ending | None) -> Selection:
        """The taken and the left out files: half-written files are never taken."""
        if self._place.kind != _CHECKPOINT:
            return Selection(taken=tuple(found))
        known = self._known()
        changed = {
            item.path for item in found if item.kind == FILE and not self._same(item, known.get(item.path))
        }
        torn: set[str] = set()
        full = ending is None and self._is_full(self._place.root)
        if ending is not None:
            if self.last is None:
                known = self._restorable_inputs()
            torn = select_stable.cut_short(found, ending, seen_at=self._place.seen_at)
            select_stable.replace_suspects(known, found, torn, self._earlier())
        look = Look(Path(self._place.root), found, known, changed, self._logs, full)
        return select_stable.select_stable(look, seen_at=self._place.seen_at, ending=ending, torn=torn)

    def _restorable_inputs(self) -> dict[str, Entry]:
        """The entries of the inputs whose pieces are still in the store."""
        entries = [entry for manifest in self._inputs for entry in manifest.entries]
        has = self._blobs.has
        return {entry.path: entry for entry in entries if all(has(chunk.name) for chunk in entry.chunks)}

    def _earlier(self) -> Iterator[Sequence[Entry]]:
        """The entries of the versions before the last one, the newest first, and then of the inputs."""
        place = self._place
        for manifest in stored.readable_manifests(self._blobs, place.run_id, place.kind, place.rank):
            if self.last is None or manifest.version < self.last.version:
                yield manifest.entries
        yield tuple(self._restorable_inputs().values())

    def _is_foreign(self, item: Found) -> bool:
        """Whether this was placed here from another node, and is unchanged since."""
        entry = self._foreign.get(item.path)
        if entry is None or entry.kind != item.kind:
            return False
        return item.kind != FILE or (item.size_bytes, item.mtime_ns) == (entry.size_bytes, entry.mtime_ns)

    def _same(self, item: Found, entry: Entry | None) -> bool:
        """Whether a file equals that of the last version, without reading it."""
        if entry is None or self.last is None or entry.kind != item.kind:
            return False
        if item.kind == LINK:
            return (entry.target, entry.inside) == self._link(item)
        if item.kind == FILE:
            quiet = item.mtime_ns < (self.last.read_at - _QUIET_S) * 1e9
            same = (item.size_bytes, item.mtime_ns) == (entry.size_bytes, entry.mtime_ns)
            return quiet and same and item.mode == entry.mode
        return item.mode == entry.mode

    def _all_torn(self, selection: Selection, ending: Ending | None) -> bool:
        """Whether the last version has torn files, and no other files remain: then the next is empty.

        Without a next version the last one would be the newest, and be taken for a checkpoint.
        """
        if ending is None or self.last is None:
            return False
        return any(quiescence.below(entry.path, selection.left_out) for entry in self.last.entries)

    def _unchanged(self, taken: Sequence[Found], carried: Sequence[Entry]) -> bool:
        known = self._known()
        if {item.path for item in taken} | {entry.path for entry in carried} != known.keys():
            return False
        return all(self._same(item, known[item.path]) for item in taken) and all(
            known[entry.path] == entry for entry in carried
        )

    # --- sending

    def _hold(self, selection: Selection, opened: ExitStack) -> dict[str, int]:
        """Open the files to read, within the limit; by path."""
        known, room = self._known(), _raise_limit() - _SPARE_HANDLES
        handles: dict[str, int] = {}
        for item in selection.taken:
            if item.kind != FILE or self._same(item, known.get(item.path)) or len(handles) >= room:
                continue
            handle = self._open(item)
            opened.callback(os.close, handle)
            handles[item.path] = handle
            strict = self._strict and item.path not in selection.growing
            if strict and not _matches(os.fstat(handle), item):
                raise _Moment(f"{item.path} changes at this moment")
        return handles

    def _open(self, item: Found) -> int:
        path = os.path.join(self._place.root, item.path)  # noqa: PTH118
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _Moment(f"{item.path} cannot be read: {error.strerror}") from error

    def _send(self, selection: Selection, handles: Mapping[str, int]) -> list[Entry]:
        """Store the content of every entry; returns the entries. Raises Unstable if a file changed during the
        reading.
        """
        taken, known = selection.taken, self._known()
        self._sent.update(chunk.digest for entry in known.values() for chunk in entry.chunks)
        entries = [self._plain_entry(item) for item in taken]
        with ThreadPoolExecutor(self._threads) as pool:
            pending = {}
            for number, item in enumerate(taken):
                if item.kind == FILE and self._same(item, known.get(item.path)):
                    entries[number] = entries[number]._replace(chunks=known[item.path].chunks)
                elif item.kind == FILE:
                    starts = range(0, item.size_bytes, self._place.piece_bytes)
                    pending[number] = [
                        pool.submit(self._send_piece, item, handles, start) for start in starts
                    ]
            try:
                for number, futures in pending.items():
                    chunks = [chunk for future in futures if (chunk := future.result()) is not None]
                    size = sum(chunk.size_bytes for chunk in chunks)
                    entries[number] = entries[number]._replace(chunks=tuple(chunks), size_bytes=size)
                    strict = self._strict and taken[number].path not in selection.growing
                    if strict and not self._is_unchanged(taken[number], handles):
                        raise Unstable(f"{taken[number].path} changed while it was read")
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return entries

    def _send_piece(self, item: Found, handles: Mapping[str, int], start: int) -> Chunk | None:
        """Store one piece of a file; None if the file has become shorter."""
        length = min(self._place.piece_bytes, item.size_bytes - start)
        opened = handles.get(item.path)
        handle = self._open(item) if opened is None else opened
        try:
            data = _read(handle, length, start)
        except OSError as error:
            raise Unstable(f"{item.path} cannot be read: {error.strerror}") from error
        finally:
            if opened is None:
                os.close(handle)
        if not data:
            return None
        chunk = Chunk(hashlib.sha256(data).hexdigest(), len(data))
        if chunk.digest not in self._sent:
            if not self._blobs.has(chunk.name):
                self._blobs.put(chunk.name, data)
            self._sent.add(chunk.digest)
        return chunk

    def _is_unchanged(self, item: Found, handles: Mapping[str, int]) -> bool:
        """Whether a file is unchanged since the scan."""
        try:
            if item.path in handles:
                return _matches(os.fstat(handles[item.path]), item)
            return _matches(os.lstat(os.path.join(self._place.root, item.path)), item)  # noqa: PTH118
        except OSError:
            return False

    def _plain_entry(self, item: Found) -> Entry:
        target, is_inside = self._link(item)
        return Entry(
            path=item.path,
            kind=item.kind,
            mode=item.mode,
            size_bytes=item.size_bytes if item.kind == FILE else 0,
            mtime_ns=item.mtime_ns,
            target=target,
            inside=is_inside,
        )

    def _link(self, item: Found) -> tuple[str, bool]:
        """The stored form of a link: an absolute one into the artifact becomes the path within."""
        if item.kind != LINK:
            return "", False
        path = quiescence.inside(item.target, seen_at=self._place.seen_at)
        return (item.target, False) if path is None else (path, True)

    def _commit(self, entries: list[Entry], **facts: Any) -> Manifest:
        """Store the new version, with these facts in its manifest."""
        place = self._place
        while True:
            self._newest = (self._newest or 0) + 1
            manifest = Manifest(
                version=Version(place.run_id, place.kind, place.rank, self._newest),
                attempt=place.attempt,
                created_at=time.time(),
                entries=tuple(entries),
                **facts,
            )
            if self._blobs.create(manifest.version.name, stored.to_bytes(manifest)):
                return manifest


def _equal(one: Selection, other: Selection) -> bool:
    """Whether both take the same; logs may have grown meanwhile."""
    growing = one.growing | other.growing
    first, second = (
        [item for item in selection.taken if item.path not in growing] for selection in (one, other)
    )
    return (first, one.carried) == (second, other.carried)


def _matches(now: os.stat_result, item: Found) -> bool:
    """Compares without the time of names: a file that was only removed meanwhile is unchanged."""
    return (now.st_ino, now.st_size, now.st_mtime_ns) == item.stamp


def _raise_limit() -> int:
    """The maximum of open files: the limit that this user may request."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST_HANDLES if limit == resource.RLIM_INFINITY else min(limit, _MOST_HANDLES)


def _read(handle: int, length: int, start: int) -> bytes:
    """Up to `length` bytes: fewer only at the end of the file."""
    data = os.pread(handle, length, start)
    while data and len(data) < length and (more := os.pread(handle, length - len(data), start + len(data))):
        data += more
    return data
