"""Tells logs from text checkpoints: a log is useful up to any point, a checkpoint is not.

Programs often hold a log open during their whole run. A truncated log lacks its last lines at most, so its
present part is stored. Lines of text alone do not make a log: models, vocabularies and states are text as
well. Text is a log after one program has held it open for LOG_S and has only appended to it.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tarmac.artifacts.versions import assembly
from tarmac.artifacts.versions.manifest import FILE, LINK, Entry
from tarmac.artifacts.versions.quiescence import Found
from tarmac.node.attempt import protocol
from tarmac.node.files import untrusted
from tarmac.node.kernel.syscalls import IN_CLOSE_WRITE, Inotify

LOG_S = 10.0
"""A program closes a text checkpoint sooner than this; each later one is another opening."""

_PIECE_BYTES = 4096
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_DATABASE = b"SQLite format 3\0"
_DATABASE_PARTS = ("-wal", "-shm", "-journal")
_EVENTS = "tfevents"


class _Text(NamedTuple):
    """A text file in the state of its first open writing; `closings`: the number of its closings since."""

    file_id: tuple[int, int]
    size_bytes: int
    head: bytes
    tail: bytes
    since_s: float
    closings: int = 0
    is_log: bool = False


class Logs:
    """The logs of one artifact directory, followed over several scans. Used by one thread."""

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._clock = clock
        self._texts: dict[str, _Text] = {}
        self._inotify: Inotify | None = None
        self._directories: dict[int, str] = {}

    def has(self, item: Found, *, ended: bool = False) -> bool:
        """Whether a file with a writer, or one whose writer has `ended`, is a log."""
        path = Path(self._root, item.path)
        if is_log_format(path):
            return True
        self._take_closings()
        text = self._texts.get(item.path)
        if text is None or not self._only_grew(text, item, path, most_closings=int(ended)):
            self._begin(item, path)
            return False
        if not text.is_log and not ended and self._clock() - text.since_s >= LOG_S:
            text = self._texts[item.path] = text._replace(is_log=True)
        return text.is_log

    def _begin(self, item: Found, path: Path) -> None:
        """Follow a file from now on, if it is text and this node reports its closing."""
        self._texts.pop(item.path, None)
        if not is_text_lines(path):
            return
        with suppress(OSError):
            self._inotify = self._inotify or Inotify()
            self._directories[self._inotify.watch(str(path.parent), IN_CLOSE_WRITE)] = str(path.parent)
            head, tail = _ends(path, item.size_bytes)
            self._texts[item.path] = _Text(item.file_id, item.size_bytes, head, tail, self._clock())

    def _only_grew(self, text: _Text, item: Found, path: Path, *, most_closings: int) -> bool:
        if text.closings > most_closings or item.file_id != text.file_id or item.size_bytes < text.size_bytes:
            return False
        try:
            return _ends(path, text.size_bytes) == (text.head, text.tail)
        except OSError:
            return False

    def _take_closings(self) -> None:
        for event in self._inotify.happened() if self._inotify is not None else ():
            path = Path(self._directories.get(event.watch, ""), event.name)
            name = os.path.relpath(path, self._root)
            if name in self._texts:
                text = self._texts[name]
                self._texts[name] = text._replace(closings=text.closings + 1)


def newest_checkpoint(root: str, items: Sequence[Found | Entry]) -> tuple[float, int | None]:
    """The time of the newest checkpoint among these (0: there is none), and its step, if known.

    Of checkpoints made by the SDK, the one that the link names counts: programs resume from that.
    """
    names = (item.target for item in items if item.kind == LINK and item.path == protocol.LATEST)
    step = protocol.STEP.fullmatch(next(names, ""))
    if step is None:
        return _written_at(root, items), None
    return _written_at(root, [item for item in items if item.path.startswith(f"{step[0]}/")]), int(step[1])


def _written_at(root: str, items: Sequence[Found | Entry]) -> float:
    """The time of the newest of these files, in seconds since the epoch; 0 if there is none.

    A log counts only without other files: it may be written at any time. Drafts and the configuration of a
    model never count: the next save begins with them.
    """
    of_text = 0.0
    files = [item for item in items if item.kind == FILE and item.size_bytes and not _begins_save(item.path)]
    for item in sorted(files, key=lambda item: item.mtime_ns, reverse=True):
        path = Path(root, item.path)
        with suppress(OSError):
            if path.lstat().st_mtime_ns == item.mtime_ns:  # otherwise an earlier content is meant
                if is_log_format(path):
                    continue
                if is_text_lines(path):
                    of_text = of_text or item.mtime_ns / 1e9
                    continue
        return item.mtime_ns / 1e9
    return of_text


def _begins_save(path: str) -> bool:
    return any(map(assembly.is_draft, path.split("/"))) or path.endswith("config.json")


def is_log_format(path: Path) -> bool:
    """Whether a file has events of TensorBoard, or is a database, which survives a truncation."""
    if _EVENTS in path.name or path.name.endswith(_DATABASE_PARTS):
        return True
    try:
        return _ends(path, _PIECE_BYTES)[0].startswith(_DATABASE)
    except OSError:
        return False


def is_text_lines(path: Path) -> bool:
    """Whether a file has lines of text, judged by its two ends, and is not a single JSON document."""
    try:
        head, tail = _ends(path, path.lstat().st_size)
    except OSError:
        return False
    return b"\n" in head and _is_text(head) and _is_text(tail) and not _is_document(head)


def _ends(path: Path, size_bytes: int) -> tuple[bytes, bytes]:
    """The first and the last piece of a file of this size."""
    with os.fdopen(untrusted.open_to_read(str(path)), "rb") as file:
        head = file.read(min(_PIECE_BYTES, size_bytes))
        file.seek(max(0, size_bytes - _PIECE_BYTES))
        return head, file.read(min(_PIECE_BYTES, size_bytes))


def _is_text(piece: bytes) -> bool:
    """Whether a piece is text, even with a character cut at either end."""
    if any(byte < 32 and byte not in _TEXT_CONTROLS for byte in piece):
        return False
    return "\ufffd" not in piece.decode("utf-8", "replace")[3:-3]


def _is_document(head: bytes) -> bool:
    """Whether it is a single JSON document, incomplete before its last bracket, not one on each line."""
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(head.split(b"\n", 1)[0])
    except ValueError:
        return True
    return b"\n" not in head
