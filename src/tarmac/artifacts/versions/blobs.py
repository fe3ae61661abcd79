"""Where artifacts are kept: named pieces of bytes, each whole or not there, in a directory or behind a URL.

Opened (see `stores`) by the sidecar on a node and by the server. Names are of our own making, never a user's.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Protocol

from tarmac.artifacts.durable import flush_directory
from tarmac.model.errors import Unavailable


@dataclass(frozen=True, slots=True)
class Held:
    """One piece in a store, as a listing tells of it."""

    name: str
    size_bytes: int
    changed_at: float


class Blobs(Protocol):
    """A store. Every method may be called from several threads, and raises Unavailable when it is down."""

    def put(self, name: str, data: bytes) -> None:
        """Keep these bytes under a name, in place of what was there: readers see one or the other, whole."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """The same, unless the name is taken: then nothing happens, and the answer is False."""
        ...

    def get(self, name: str) -> bytes | None:
        """The bytes under a name; None when there are none."""
        ...

    def has(self, name: str) -> bool:
        """Whether there is anything under a name."""
        ...

    def remove(self, name: str) -> None:
        """Forget a name; nothing happens when it is not there."""
        ...

    def held(self, prefix: str) -> Iterator[Held]:
        """Everything below a prefix (a whole path component), in no order."""
        ...


MARK = "tarmac-artifacts"
"""Every store holds it: a disk that is not mounted, or an emptied bucket, must not pass for a new store."""


def begin_store(blobs: Blobs) -> None:
    """Make a store of an empty place."""
    blobs.create(MARK, b"1")


def check_store(blobs: Blobs) -> None:
    """Raises Unavailable where there is no store (any more)."""
    if not blobs.has(MARK):
        raise Unavailable(f"there is no artifact store: it holds no {MARK!r}")


class DirectoryBlobs:
    """A store in a directory, on any disk that renames in one step."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._unsettled: set[Path] = set()
        self._lock = Lock()

    def put(self, name: str, data: bytes) -> None:
        with _told(f"writing {name}"):
            draft = self._draft(name, data)
            draft.replace(self._root / name)
            with self._lock:
                self._unsettled.add((self._root / name).parent)

    def create(self, name: str, data: bytes) -> bool:
        with _told(f"writing {name}"):
            with self._lock:  # a name stands only over pieces whose names stand
                unsettled, self._unsettled = self._unsettled, set()
            for directory in unsettled:
                flush_directory(directory)
            draft = self._draft(name, data)
            try:
                os.link(draft, self._root / name)
            except FileExistsError:
                return False
            finally:
                draft.unlink(missing_ok=True)
            flush_directory((self._root / name).parent)
            return True

    def get(self, name: str) -> bytes | None:
        with _told(f"reading {name}"):
            try:
                return (self._root / name).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def has(self, name: str) -> bool:
        with _told(f"looking for {name}"):
            return (self._root / name).is_file()

    def remove(self, name: str) -> None:
        with _told(f"removing {name}"):
            (self._root / name).unlink(missing_ok=True)

    def held(self, prefix: str) -> Iterator[Held]:
        with _told(f"listing {prefix}"):
            for place, _, names in os.walk(self._root / prefix, onerror=_raise_unless_gone):
                for name in names:
                    path = Path(place, name)
                    if name.startswith(_DRAFT):
                        continue
                    with contextlib.suppress(FileNotFoundError):
                        found = path.stat()
                        told = path.relative_to(self._root).as_posix()
                        yield Held(told, found.st_size, found.st_mtime)

    def _draft(self, name: str, data: bytes) -> Path:
        """The bytes on the disk, beside their place and under no name yet."""
        directory = (self._root / name).parent
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, draft = tempfile.mkstemp(prefix=_DRAFT, dir=directory)
        try:
            with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
                file.write(data)
                file.flush()
                os.fdatasync(handle)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
        return Path(draft)


_DRAFT = ".draft-"


def _raise_unless_gone(error: OSError) -> None:
    """What is not there holds nothing; what cannot be read is no empty store."""
    if not isinstance(error, FileNotFoundError):
        raise error


@contextlib.contextmanager
def _told(doing: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"the artifact store failed {doing}: {error.strerror or error}") from error
