"""Defensive access to files that a run can write. Called wherever tarmac uses such a file.

A worker may replace any file of its attempt: with a FIFO that never answers, a device, a link to another
user's file, gigabytes without a line end. Therefore no function here waits, follows a link in the last
component, reads without a limit, or assumes valid content. They raise only `OSError` and `ValueError`.

The functions `..._inside` take paths below a directory from requests: they follow no link at all.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from contextlib import suppress
from itertools import islice
from typing import Any, Callable, Optional

from tarmac.node.kernel.handles import closing

LONGEST_LINE_BYTES = 128 * 1024
"""Longer than any event with the last lines of a log."""

STEP_BYTES = 2 * LONGEST_LINE_BYTES
_FIRST_STEP_BYTES = 16 * 1024
STEP_LINES = 2_000
DOCUMENT_BYTES = 64 * 1024 * 1024
NOTE_BYTES = 1024 * 1024
"""The limit for small documents: requests, claims, notes of a failure."""

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_EXTEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_APPEND = _EXTEND & ~os.O_RDWR | os.O_WRONLY
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def open_to_read(path: str, *, dir_fd: Optional[int] = None) -> int:
    """A descriptor of a regular file; raises OSError for anything else, and never waits for a writer."""
    return _regular(os.open(path, _READ, dir_fd=dir_fd), path)


def open_to_append(path: str) -> int:
    """A descriptor that appends to a regular file, made if it is missing; raises OSError."""
    handle = _regular(os.open(path, _APPEND, 0o666), path)
    os.set_blocking(handle, True)  # processes that inherit it may block
    return handle


def open_to_extend(path: str) -> int:
    """The same for this process alone, which may also read."""
    return _regular(os.open(path, _EXTEND, 0o666), path)


def open_directory(path: str) -> int:
    """A descriptor of a directory, which is no link; raises OSError for anything else."""
    return os.open(path, _DIRECTORY)


def make_directory(path: str) -> None:
    """Make a directory and those above it that are missing; quicker than `os.makedirs`. Raises OSError."""
    try:
        os.mkdir(path)
    except FileExistsError:
        pass
    except FileNotFoundError:
        make_directory(os.path.dirname(path))
        make_directory(path)


def read_bytes(path: str, limit_bytes: int) -> bytes:
    """The content of a regular file; raises OSError for a longer file and for every other problem."""
    with closing(open_to_read(path)) as handle:
        found = pread(handle, 0, limit_bytes + 1)
    if len(found) > limit_bytes:
        raise OSError(errno.EFBIG, f"longer than {limit_bytes} bytes", path)
    return found


def read_object(path: str, limit_bytes: int = NOTE_BYTES) -> dict[str, Any]:
    """The JSON object in a file; raises OSError, or ValueError if there is none."""
    return parse_object(read_bytes(path, limit_bytes))


def object_at(path: str, limit_bytes: int = NOTE_BYTES) -> dict[str, Any]:
    """The JSON object in a file; empty if that is missing or unreadable."""
    try:
        return read_object(path, limit_bytes)
    except (OSError, ValueError):
        return {}


def lstat(path: str) -> Optional[os.stat_result]:
    """The status of an entry, which may be a link; None if there is none."""
    try:
        return os.lstat(path)
    except OSError:
        return None


def parse_object(text: bytes) -> dict[str, Any]:
    """A JSON object; raises ValueError for other texts, also for one that is nested too deeply."""
    try:
        value = json.loads(text.decode())  # bytes would be searched for their encoding
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")
    return value


def write_new(path: str, content: bytes, *, mode: int = 0o666) -> None:
    """Write a file that no process has open, after removing an existing entry."""
    with suppress(FileNotFoundError):
        os.unlink(path)
    _write(path, content, mode)


def _write(path: str, content: bytes, mode: int) -> None:
    with closing(os.open(path, _NEW, mode)) as handle:
        while content:
            content = content[os.write(handle, content) :]


def replace(path: str, content: bytes, *, mode: int = 0o666) -> None:
    """Replace a file atomically: a reader sees the old content or the new."""
    _place(path, content, mode, os.rename)


def publish(path: str, content: bytes) -> None:
    """Make a file that is complete when it appears; raises FileExistsError if another process was first."""
    _place(path, content, 0o666, os.link)


def _place(path: str, content: bytes, mode: int, place: Callable[[str, str], None]) -> None:
    """Write a draft beside a path, and place it there."""
    # A random name: a pid is local to one namespace of one machine, and several may share this disk.
    draft = f"{path}.{os.urandom(6).hex()}"
    try:
        _write(draft, content, mode)
        place(draft, path)
    finally:
        with suppress(OSError):
            os.unlink(draft)


def touch(path: str) -> None:
    """Make a regular file or update its time; raises OSError, and never waits."""
    with closing(open_to_append(path)) as handle:
        os.utime(handle)


def append_text(path: str, text: str) -> None:
    """Append text to a file for users; raises OSError."""
    with open(open_to_append(path), "a", encoding="utf-8", errors="replace") as file:
        file.write(text)


def read_part(path: str, offset: int, limit_bytes: int) -> bytes:
    """At most `limit_bytes` of a regular file from an offset; raises OSError."""
    with closing(open_to_read(path)) as handle:
        return pread(handle, offset, limit_bytes)


def last_bytes(path: str, limit_bytes: int) -> tuple[bytes, bool]:
    """The end of a regular file, and whether that is the whole file; nothing of one that cannot be read."""
    with suppress(OSError), closing(open_to_read(path)) as handle:
        start = max(0, os.fstat(handle).st_size - limit_bytes)
        return pread(handle, start, limit_bytes), start == 0
    return b"", True


def remove_tree(path: str) -> None:
    """Remove a directory of any depth by moving inner directories to its top. Raises OSError.

    No link is followed; `path` must itself be a directory.
    """
    with closing(open_directory(path)) as top:
        count = 0
        while names := os.listdir(top):
            for name in names:
                if not _is_directory(name, top):
                    os.unlink(name, dir_fd=top)
                    continue
                count = _raise_below(name, top, count)
                os.rmdir(name, dir_fd=top)
    os.rmdir(path)


def discard_tree(path: str) -> bool:
    """Remove a directory like `remove_tree`; False if it is missing, a link, in use, or another user's."""
    try:
        remove_tree(path)
    except OSError:
        return False
    return True


def _raise_below(name: str, top: int, count: int) -> int:
    """Empty a directory: remove files, move directories to the top; returns the number of moves so far."""
    if os.geteuid() != 0:  # root needs no mode, and must follow no link in place of the directory
        os.chmod(name, 0o700, dir_fd=top)
    with closing(os.open(name, _DIRECTORY, dir_fd=top)) as handle:
        for inner in os.listdir(handle):
            if _is_directory(inner, handle):
                if os.geteuid() != 0:  # moving a directory requires write permission in it
                    os.chmod(inner, 0o700, dir_fd=handle)
                while True:
                    count += 1
                    if not os.access(f".removed-{count}", os.F_OK, dir_fd=top, follow_symlinks=False):
                        break
                os.rename(inner, f".removed-{count}", src_dir_fd=handle, dst_dir_fd=top)
            else:
                os.unlink(inner, dir_fd=handle)
    return count


def _is_directory(name: str, parent: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)


class Lines:
    """A file of lines that grows while it is read: at most a bounded amount per call.

    It skips an overlong line, and the rest of a file beyond `limit_bytes`: `overlong` reports both. It reads
    a replaced or truncated file from the start: `begun` counts these.
    """

    def __init__(self, path: str, *, limit_bytes: int = DOCUMENT_BYTES) -> None:
        self._path = path
        self._limit_bytes = limit_bytes
        self._identity: Optional[tuple[int, int]] = None
        self._offset = 0
        self._passing_over = False
        self.overlong = False
        self.begun = 0

    def added(self) -> list[bytes]:
        """The complete lines of the next step; [] if there are none. Raises OSError like `open_to_read`."""
        with closing(open_to_read(self._path)) as handle:
            found = os.fstat(handle)
            if self._identity != (found.st_dev, found.st_ino) or found.st_size < self._offset:
                self._identity, self._offset, self._passing_over = (found.st_dev, found.st_ino), 0, False
                self.begun += 1
            if found.st_size == self._offset:
                return []
            room = self._limit_bytes - self._offset
            piece = pread(handle, self._offset, min(STEP_BYTES, room)) if room > 0 else b""
        self.overlong = self.overlong or room <= 0
        return self._whole_lines(piece) if piece else []

    def all_added(self, steps: int = 16) -> list[bytes]:
        """The lines of at most `steps` steps, for a last read. Raises OSError."""
        lines: list[bytes] = []
        for _ in range(steps):
            before = self._offset
            lines += self.added()
            if self._offset == before:
                break
        return lines

    def _whole_lines(self, piece: bytes) -> list[bytes]:
        if self._passing_over:
            skipped, found, piece = piece.partition(b"\n")
            self._offset += len(skipped) + len(found)
            self._passing_over = not found
        *lines, rest = piece.split(b"\n", STEP_LINES)
        self._offset += len(piece) - len(rest)
        if len(rest) > LONGEST_LINE_BYTES and len(lines) < STEP_LINES:  # no valid line is this long
            self._offset += len(rest)
            self._passing_over = self.overlong = True
        fitting = [line for line in lines if len(line) <= LONGEST_LINE_BYTES]
        self.overlong = self.overlong or len(fitting) < len(lines)
        return fitting


def _regular(handle: int, path: str) -> int:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return handle


def pread(handle: int, offset: int, limit_bytes: int) -> bytes:
    """At most `limit_bytes` of an open file from an offset. Raises OSError."""
    pieces: list[bytes] = []
    step_bytes = _FIRST_STEP_BYTES  # most files are small, and a large buffer costs time
    while limit_bytes > 0 and (piece := os.pread(handle, min(limit_bytes, step_bytes), offset)):
        step_bytes = STEP_BYTES
        pieces.append(piece)
        offset += len(piece)
        limit_bytes -= len(piece)
    return b"".join(pieces)


def read_inside(directory: str, path: str, *, offset: int, limit: int) -> Optional[bytes]:
    """At most `limit` bytes from `offset` of a regular file below `directory`; None if there is none.

    A negative offset counts from its end.
    """
    try:
        descriptor = open_inside(directory, path)
    except OSError:
        return None
    with closing(descriptor):
        if offset < 0:
            offset = max(0, os.fstat(descriptor).st_size + offset)
        return pread(descriptor, offset, limit)


def list_inside(directory: str, path: str, *, limit: int) -> Optional[list[list[object]]]:
    """The entries of a directory below `directory` (""; itself), at most `limit`; None if there is none.

    Each as name, kind (`file`, `directory`, `link`, `other`), bytes, and modification time.
    """
    try:
        handle = _directory_below(directory, _parts(path) if path else [])
    except (OSError, ValueError):
        return None
    with closing(handle), os.scandir(handle) as entries:
        return sorted(filter(None, map(_entry, islice(entries, limit))), key=lambda entry: str(entry[0]))


def _entry(entry: os.DirEntry[str]) -> list[object]:
    try:
        found = entry.stat(follow_symlinks=False)
    except OSError:
        return []  # removed since
    kinds = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "link"}
    name = entry.name.encode("utf-8", "replace").decode()
    return [name, kinds.get(stat.S_IFMT(found.st_mode), "other"), found.st_size, found.st_mtime]


def open_inside(directory: str, path: str) -> int:
    """A descriptor of a regular file below `directory`, which is no link itself. Raises OSError."""
    *parents, name = _parts(path)
    with closing(_directory_below(directory, parents)) as parent:
        return open_to_read(name, dir_fd=parent)


def _directory_below(directory: str, parts: list[str]) -> int:
    """Open component by component, so that no link is followed."""
    handle = os.open(directory, _DIRECTORY)
    for part in parts:
        with closing(handle):
            handle = os.open(part, _DIRECTORY, dir_fd=handle)
    return handle


def _parts(path: str) -> list[str]:
    """The components of a path that leads downwards only. Raises OSError."""
    parts = path.split("/")
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return parts
