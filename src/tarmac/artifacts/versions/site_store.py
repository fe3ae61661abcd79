"""A store of artifacts in the directory of a site, and its exchange with the server's own.

Nodes of a site without access to the server's disk or a URL store versions there by themselves, with or
without a running server. The server fetches them (`SiteArtifacts`), and sends the inputs of a run (`Delivery`
of an engine). Fetched versions are marked, so that each is fetched once, and is removed at the site after it
was removed here:

    fetched/STORE/RUN/KIND/RANK/NUMBER      the server's store, by the digest of its URL, has had this version
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from threading import Event

from tarmac.artifacts.versions import manifest as stored
from tarmac.artifacts.versions import store_lock
from tarmac.artifacts.versions.blobs import MARK, Blobs, Piece, check_store
from tarmac.artifacts.versions.catalog import collect
from tarmac.artifacts.versions.manifest import MANIFESTS, Chunk, Version
from tarmac.artifacts.versions.restore import inputs_of
from tarmac.model.abilities import StoreFiles
from tarmac.model.errors import NotFound, Unavailable

FETCHED = "fetched"
PIECE_BYTES = 1 << 20
"""The size of one transfer: larger pieces would delay other traffic on the connection."""

THREADS = 4
"""The number of parallel chunks: one after the other, each would wait for a round trip."""


class SiteBlobs:
    """The store at the site. `ending` cancels running transfers: the server stops."""

    def __init__(self, files: StoreFiles, ending: Event) -> None:
        self._files = files
        self._ending = ending

    def put(self, name: str, data: bytes) -> None:
        for begin in range(0, len(data) or 1, PIECE_BYTES):
            self._check_ending()
            end = begin + PIECE_BYTES
            self._files.write(name, begin, data[begin:end], last=end >= len(data))

    def create(self, name: str, data: bytes) -> bool:
        if self.has(name):  # only the server sends versions there, and each is of one run and number
            return False
        self.put(name, data)
        return True

    def get(self, name: str) -> bytes | None:
        pieces: list[bytes] = []
        while not pieces or len(pieces[-1]) == PIECE_BYTES:
            self._check_ending()
            piece = self._files.read(name, offset=len(pieces) * PIECE_BYTES, limit=PIECE_BYTES)
            if piece is None:
                return None
            pieces.append(piece)
        return b"".join(pieces)

    def has(self, name: str) -> bool:
        return self._files.read(name, offset=0, limit=1) is not None

    def remove(self, name: str) -> None:
        self._files.remove([name])

    def pieces(self, prefix: str) -> Iterator[Piece]:
        return (Piece(*found) for found in self._files.listing(prefix))

    def _check_ending(self) -> None:
        if self._ending.is_set():
            raise Unavailable("the server is leaving")


class SiteStore:
    """The store at a site beside the server's own, `near` with its `url`. Raises Unavailable, and Broken."""

    def __init__(self, files: StoreFiles, near: Callable[[], Blobs], *, url: str, ending: Event) -> None:
        self._files = files
        self._near = near
        self._marks = f"{FETCHED}/{hashlib.sha256(url.encode()).hexdigest()[:16]}"
        self._far = SiteBlobs(files, ending)

    def begin(self) -> None:
        """Create a store in an empty place there; a site that removes old files retains its name."""
        self._far.put(MARK, b"1")

    def unfetched(self, run_id: str | None = None) -> list[Version]:
        """The versions there, of a run or of all, that were never fetched, in order."""
        found = stored.versions(self._far, run_id)
        marked = self._marked(run_id) if found else ()
        return [version for version in found if version not in marked]

    def fetch(self, version: Version) -> None:
        """Copy it to the server's store: completely or not at all. Raises NotFound if it was removed."""
        near = self._near()
        check_store(near)
        if not near.has(version.name):
            _copy(version, self._far, near)
        self._far.put(self._mark_of(version), b"1")

    def send(self, run_id: str, inputs: Sequence[str]) -> None:
        """Send the inputs of an attempt and the newest versions of its run, if they are missing there."""
        near = self._near()
        newest = {(version.kind, version.rank): version for version in stored.versions(near, run_id)}
        found = stored.versions(self._far, run_id) if newest else []
        there = {(version.kind, version.rank): version.number for version in found}
        own = [version for place, version in newest.items() if there.get(place, 0) < version.number]
        for version in (*inputs_of(inputs), *own):
            if not self._far.has(version.name):
                with suppress(NotFound):  # removed since: the sidecar reports it
                    _copy(version, near, self._far)
                    self._far.put(self._mark_of(version), b"1")

    def clear(self, *, inputs: Collection[str], old: Collection[Version]) -> int:
        """Remove versions that the server's store no longer has, and `old`; returns the number of removals.

        That number counts versions and pieces. `inputs` are versions that live runs start from.
        """
        near = self._near()
        check_store(near)
        here, there, marked = set(stored.versions(near)), set(stored.versions(self._far)), self._marked(None)
        gone = {version for version in marked if version not in here and version.id not in inputs}
        if names := [version.name for version in sorted((gone | set(old)) & there)]:
            self._files.remove(names)
        if marks := [self._mark_of(version) for version in sorted(gone)]:
            self._files.remove(marks)
        return len(names) + (collect(self._far) or 0)

    def remove(self, run_id: str) -> None:
        """Remove every version of a run there; `clear` later removes unused pieces."""
        self._files.remove([f"{MANIFESTS}/{run_id}", f"{self._marks}/{run_id}"])

    def _marked(self, run_id: str | None) -> set[Version]:
        prefix = f"{self._marks}/{run_id}" if run_id else self._marks
        names = (f"{MANIFESTS}{piece.name[len(self._marks) :]}" for piece in self._far.pieces(prefix))
        return {version for name in names if (version := stored.version_named(name)) is not None}

    def _mark_of(self, version: Version) -> str:
        return f"{self._marks}{version.name[len(MANIFESTS) :]}"


def _copy(version: Version, source: Blobs, target: Blobs) -> None:
    """Copy a version, its pieces first. An interrupted copy continues from its last point."""
    data = source.get(version.name)
    if data is None:
        raise NotFound(f"there is no artifact {version.id}")
    chunks = {
        chunk.name: chunk for entry in stored.from_bytes(data, version).entries for chunk in entry.chunks
    }
    with store_lock.syncing(target, f"{version.run_id}.site"):
        with ThreadPoolExecutor(THREADS) as threads:
            for _ in threads.map(partial(_copy_chunk, source, target), chunks.values()):
                pass  # the first failure prevents the start of the others
        target.create(version.name, data)


def _copy_chunk(source: Blobs, target: Blobs, chunk: Chunk) -> None:
    if not target.has(chunk.name):
        target.put(chunk.name, stored.read_chunk(source, chunk))
