"""`FirecrestFiles`: files of a user behind a firecREST. Made by `FirecrestKind`.

Small files are downloaded as a whole. Logs are read by ranges, which firecREST offers for text alone. Large
files pass through the object store of the site (see `transfers`).
"""

import calendar
import errno
import hashlib
import os
import posixpath
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock
from typing import IO, Any

from tarmac.engines.firecrest.api import Api, ApiError
from tarmac.engines.firecrest.transfers import Facts, Transfers
from tarmac.engines.sites.wire import RemoteEntry
from tarmac.model.errors import Unavailable

OPS = "/filesystem/{system}/ops"
KINDS = {"-": "file", "d": "directory", "l": "link"}
GROWING = (".log", ".jsonl", ".idx")
"""The ends of the names of files that are read by ranges."""

BLOCK_BYTES = 256 * 1024
LARGEST_BLOCK_BYTES = 1 << 20
LOST = "\N{REPLACEMENT CHARACTER}"
KEPT_S = 60.0
ERRORS = {
    **dict.fromkeys(("no such file", "not a directory", "is a directory"), errno.ENOENT),
    "permission denied": errno.EACCES,
    "operation not permitted": errno.EPERM,
    "no space left": errno.ENOSPC,
    "disk quota exceeded": errno.EDQUOT,
}


class FirecrestFiles:
    """Implements `SiteFiles`."""

    def __init__(self, api: Api, account: str | None = None) -> None:
        self._api = api
        self._transfers = Transfers(api, account)
        self._lock = Lock()
        self._last: tuple[str, bytes, float] = ("", b"", 0.0)
        self._ranges: bool | None = None

    def listing(self, directory: str, *, recursive: bool = False) -> list[RemoteEntry] | None:
        with suppress(FileNotFoundError), _failures(directory):
            flags = {"showHidden": "true", "recursive": str(recursive).lower()}
            found = self._api.get(f"{OPS}/ls", path=directory, **flags)["output"]
            entries = [_entry(each) for each in found or ()]
            return None if any(entry.path.startswith("/") for entry in entries) else entries
        return None

    def read(self, path: str, *, offset: int, limit: int) -> bytes | None:
        with suppress(FileNotFoundError), _failures(path):
            if offset < 0:
                size = self._size(path)
                if size is None:
                    return None
                offset = max(0, size + offset)
            if path.endswith(GROWING):
                content = self._range(path, offset, limit)
                if content is not None:
                    return content
            return self._part(path, offset, limit)
        return None

    def write(self, path: str, content: bytes, *, private: bool = False) -> None:
        with _failures(path):
            if private:
                self._upload(path, b"")
                self._api.call("PUT", f"{OPS}/chmod", json={"path": path, "mode": "600"})
            for _ in range(2):
                self._upload(path, content)
                if self._digest(path) == hashlib.sha256(content).hexdigest():
                    return
        raise OSError(errno.EIO, "its content there differs from the one that was sent", path)

    def send(self, path: str, content: IO[bytes], *, size_bytes: int, digest: str) -> bool:
        with _failures(path):
            if not self._transfers.send(path, content, size_bytes) or self._size(path) != size_bytes:
                return False
            try:
                return self._digest(path) == digest
            except Unavailable:  # it takes longer than the site allows: the job compares digests
                return True

    def create(self, path: str, content: bytes) -> bytes:
        """A link to a file of its own: making one fails if the name exists, and uploads never do."""
        draft = f"{path}.{os.urandom(6).hex()}"
        self.write(draft, content)
        with _failures(path):
            try:
                self._api.post(f"{OPS}/symlink", {"sourcePath": draft, "linkPath": path})
            except ApiError as error:
                if "file exists" not in error.message.lower():
                    raise
            else:
                return content
        self.remove(draft)
        found = self.read(path, offset=0, limit=1 << 16)
        if found is None:
            raise OSError(errno.EIO, "it exists, and cannot be read", path)
        return found

    def make_directory(self, path: str, *, private: bool = False) -> None:
        with _failures(path):
            self._api.post(f"{OPS}/mkdir", {"sourcePath": path, "parent": True})
            if private:
                self._api.call("PUT", f"{OPS}/chmod", json={"path": path, "mode": "700"})

    def remove(self, path: str) -> None:
        with suppress(FileNotFoundError), _failures(path):
            self._api.call("DELETE", f"{OPS}/rm", params={"path": path})

    # --- inside ----------------------------------------------------------------------------------

    def _upload(self, path: str, content: bytes) -> None:
        directory, name = posixpath.split(path)
        files = {"file": (name, content, "application/octet-stream")}
        self._api.call("POST", f"{OPS}/upload", params={"path": directory}, files=files)

    def _digest(self, path: str) -> str:
        return str(self._api.get(f"{OPS}/checksum", path=path)["output"]["checksum"])

    def _size(self, path: str) -> int | None:
        """The size of a regular file; None if it is none."""
        facts = self._facts(path)
        return None if facts is None else facts.size_bytes

    def _facts(self, path: str) -> Facts | None:
        found = self._api.get(f"{OPS}/stat", path=path, dereference="true")["output"]
        if not stat.S_ISREG(int(found["mode"])):
            return None
        return Facts(int(found["size"]), int(found.get("mtime") or 0))

    def _part(self, path: str, offset: int, limit: int) -> bytes:
        """A part of a file: of a direct answer, or of its copy in the object store."""
        problem = None
        if not self._transfers.has_copy(path):
            try:
                return self._whole(path, offset)[offset : offset + limit]
            except ApiError as error:
                if _number_of(error) is not None:
                    raise
                problem = error
        facts = self._facts(path)
        content = facts and self._transfers.read(path, facts, offset=offset, limit=limit)
        if content is not None:
            return content
        raise problem or Unavailable(f"{path} was replaced while it was read")

    def _whole(self, path: str, offset: int) -> bytes:
        """The content of a file; kept while it is read in pieces."""
        with self._lock:
            known, content, read_at = self._last
            if known == path and 0 < offset < len(content) and time.monotonic() - read_at < KEPT_S:
                return content
        content = self._api.call("GET", f"{OPS}/download", params={"path": path})
        with self._lock:
            self._last = (path, content, time.monotonic())
        return content

    def _range(self, path: str, offset: int, limit: int) -> bytes | None:
        """A part of a text; None if it is none, or if this firecREST has no ranges.

        firecREST reads blocks of the requested size, and counts characters in them: only a range that begins
        with a block is exact. A character that is incomplete at the block's begin or end is shown as LOST; at
        the end of the file it is left out until it is complete.
        """
        if self._ranges is False:
            return None
        size = BLOCK_BYTES
        while offset % (2 * size) == 0 and 2 * size <= min(limit, LARGEST_BLOCK_BYTES):
            size *= 2
        begin = offset - offset % size
        try:
            found = self._api.get(f"{OPS}/view", path=path, offset=begin, size=size)["output"]
        except ApiError as error:
            if error.status < 500 or _number_of(error) == errno.ENOENT:
                raise
            return None
        text = str(found["content"] if isinstance(found, dict) else found)
        rest = text.lstrip(LOST)
        lost = len(text) - len(rest)  # each is a byte of the character before
        content, mark, _ = (b"?" * lost + rest.encode()).partition(LOST.encode())
        if lost > offset - begin or not self._has_ranges(path, begin, size, text):
            return None
        piece = content[offset - begin :][:limit]
        return piece if piece or not mark or rest.rstrip(LOST) == content[lost:].decode() else None

    def _has_ranges(self, path: str, begin: int, size_bytes: int, text: str) -> bool:
        """Whether the text is that of a range; found out once, at the first range inside of a file."""
        if self._ranges is None and begin and text:
            read = len(text.replace(LOST, "?").encode())
            self._ranges = read <= (self._size(path) or 0) - begin
        return self._ranges is not False and len(text) <= size_bytes


def _entry(found: dict[str, Any]) -> RemoteEntry:
    kind, size = KINDS.get(str(found["type"]), "other"), int(found["size"] or 0)
    return RemoteEntry(str(found["name"]), kind, size, _time(str(found["lastModified"])))


def _time(text: str) -> float:
    """A time without a zone: it only shows changes."""
    try:
        return float(calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")))
    except ValueError:
        return 0.0


def _number_of(error: ApiError) -> int | None:
    """The number of a failure of the file system, by its words."""
    words = "no such file" if error.status == 404 else error.message.lower()
    return next((number for text, number in ERRORS.items() if text in words), None)


@contextmanager
def _failures(path: str) -> Iterator[None]:
    """Report an error of the file system as OSError, and an answer in a wrong form as Unavailable."""
    try:
        yield
    except ApiError as error:
        number = _number_of(error) or errno.EIO
        raise OSError(number, error.message.rpartition("error message:")[2], path) from None
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable(f"{path}: the answer has a wrong form: {error!r}") from None
