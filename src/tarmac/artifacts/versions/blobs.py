"""A store of artifacts: named pieces of bytes, each whole or absent, in a directory or behind a URL.

`remote.open_blobs` opens one, for the sidecar on a node and for the server. tarmac makes the names, never a
user.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock
from typing import BinaryIO, NamedTuple, Protocol

from tarmac.model.errors import Unavailable
from tarmac.node.files import staging
from tarmac.node.kernel.handles import flush


class Piece(NamedTuple):
    """One piece in the listing of a store."""

    name: str
    size_bytes: int
    changed_at: float


class Blobs(Protocol):
    """A store. Every method may be called from several threads, and raises Unavailable if it is down."""

    def put(self, name: str, data: bytes) -> None:
        """Store these bytes under a name, in one step: readers see the old bytes or the new ones."""

    def create(self, name: str, data: bytes) -> bool:
        """Store these bytes in one step, unless the name is taken: then change nothing and return False."""

    def get(self, name: str) -> bytes | None:
        """The bytes under a name; None if there are none."""

    def has(self, name: str) -> bool:
        """Whether the name exists."""

    def remove(self, name: str) -> None:
        """Remove a name, if it exists."""

    def pieces(self, prefix: str) -> Iterator[Piece]:
        """Everything below a prefix (a whole path component), in no order."""


MARK = "tarmac-artifacts"
"""Every store has this name, so that an unmounted disk or emptied bucket is not taken for a new store."""


def begin_store(blobs: Blobs) -> None:
    """Create a store in an empty place."""
    blobs.create(MARK, b"1")


def check_store(blobs: Blobs) -> None:
    """Raise Unavailable if the store does not exist or has disappeared."""
    if not blobs.has(MARK):
        raise Unavailable(f"there is no artifact store: it holds no {MARK!r}")


class DirectoryBlobs:
    """A store in a directory, on any disk with atomic renames."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._unflushed: set[Path] = set()
        self._lock = Lock()

    def put(self, name: str, data: bytes) -> None:
        self.put_pieces(name, (data,))

    def put_pieces(self, name: str, pieces: Iterable[bytes]) -> None:
        """Store pieces of bytes, which need not be in memory at once. Raises the errors of their iterator."""
        with _store_errors(f"writing {name}"):
            draft = self._draft(name, pieces)
            draft.replace(self._root / name)
            with self._lock:
                self._unflushed.add((self._root / name).parent)

    def create(self, name: str, data: bytes) -> bool:
        with _store_errors(f"writing {name}"):
            with self._lock:  # flush the directories of earlier pieces before this name
                unflushed, self._unflushed = self._unflushed, set()
            for directory in unflushed:
                flush(directory)
            draft = self._draft(name, (data,))
            try:
                os.link(draft, self._root / name)
            except FileExistsError:
                return False
            finally:
                draft.unlink(missing_ok=True)
            flush((self._root / name).parent)
            return True

    def get(self, name: str) -> bytes | None:
        with _store_errors(f"reading {name}"):
            try:
                return (self._root / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def get_pieces(self, name: str, most_bytes: int) -> Iterator[bytes] | None:
        """The bytes under a name, in pieces of at most `most_bytes`; None if there are none."""
        with _store_errors(f"reading {name}"):
            try:
                file = (self._root / name).open("rb")
            except (FileNotFoundError, NotADirectoryError):
                return None
        return _read_pieces(file, name, most_bytes)

    def has(self, name: str) -> bool:
        with _store_errors(f"looking for {name}"):
            return (self._root / name).is_file()

    def remove(self, name: str) -> None:
        with _store_errors(f"removing {name}"):
            (self._root / name).unlink(missing_ok=True)

    def pieces(self, prefix: str) -> Iterator[Piece]:
        with _store_errors(f"listing {prefix}"):
            return (Piece(*found) for found in staging.list_pieces(str(self._root), prefix))

    def _draft(self, name: str, pieces: Iterable[bytes]) -> Path:
        """A file with these bytes, flushed to the disk, beside its later place."""
        directory = (self._root / name).parent
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=staging.DRAFT, dir=directory)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
                for piece in pieces:
                    file.write(piece)
                file.flush()
                os.fdatasync(handle)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return Path(draft)


def _read_pieces(file: BinaryIO, name: str, most_bytes: int) -> Iterator[bytes]:
    with file, _store_errors(f"reading {name}"):
        while piece := file.read(most_bytes):
            yield piece


@contextlib.contextmanager
def _store_errors(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"the artifact store failed {action}: {error.strerror or error}") from error
