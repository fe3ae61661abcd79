"""What attempts at a host report, copied to this machine for views to read. Used by `remote`.

Small files alone: logs stay there. One question serves all attempts, and is answered with what is new. What
comes was written by runs: its paths are checked, its size is limited where it is read. A copy can always be
thrown away: the first answer over a new connection brings everything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.model.errors import Unavailable
from tarmac.node.attempt.protocol import (
    ASK_FILE,
    ATTEMPT_FILE,
    CLAIM_FILE,
    CLEARED_FILE,
    EVENTS_FILE,
    HEARTBEAT_FILE,
    NODES,
    REPORTS_FILE,
    UTILIZATION_FILE,
)
from tarmac.node.files import staging, untrusted
from tarmac.node.host.changes import grows, largest_bytes

FILES = (ATTEMPT_FILE, ASK_FILE, CLEARED_FILE)
NODE_FILES = (CLAIM_FILE, EVENTS_FILE, HEARTBEAT_FILE, UTILIZATION_FILE, REPORTS_FILE)
"""What is copied of an attempt, and of each of its nodes: reports last, so that at the end all are there."""

ROUNDS = 40
"""How often more is asked for at once: a file of the largest size takes so many."""

_PLACED = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Call = Callable[..., Any]
"""`operations.changes` at the host."""


class ReportCopies:
    """The copies, below `seen`, of what lies below `layout` at the host. Thread-safe.

    `files` are those that the engine has beside the `common` ones of every attempt.
    """

    def __init__(
        self, layout: Layout, seen: Layout, *, files: Sequence[str] = (), common: Sequence[str] = FILES
    ) -> None:
        self._files = (*common, *files)
        self._layout = layout
        self._seen = seen
        self._lock = Lock()
        self._numbers: tuple[object, int] = (None, 0)
        self._prepared = False

    def refresh(self, attempt_ids: Sequence[str], call: Call, connection: object) -> None:
        """Bring the copies of attempts up to date; of one that is not at the host, nothing is done.

        `connection` is what `call` goes over: another one has to send everything. Raises Unavailable.
        """
        places = [
            (self._layout.attempt(attempt_id), self._seen.attempt(attempt_id)) for attempt_id in attempt_ids
        ]
        pending = [(far, near) for far, near in places if far is not None and near is not None]
        with self._lock:
            if self._numbers[0] is not connection:
                self._numbers = (connection, 0)
            for _ in range(ROUNDS):
                if not pending:
                    return
                answer = call(
                    number=self._numbers[1],
                    directories=[str(far) for far, _ in pending],
                    files=list(self._files),
                    node_files=list(NODE_FILES),
                )
                try:
                    more = [
                        self._apply(near, found)
                        for (_, near), found in zip(pending, answer["attempts"], strict=True)
                    ]
                except OSError as error:
                    self._numbers = (None, 0)  # not all of the answer was kept: it has to come again
                    raise Unavailable(f"{error.filename or self._seen.home}: {error.strerror}") from None
                self._numbers = (connection, int(answer["number"]))
                pending = [place for place, again in zip(pending, more, strict=True) if again]

    def _apply(self, directory: Path, found: dict[str, Any] | None) -> bool:
        """Take in what is new of an attempt; whether there is more."""
        if found is None:
            return False
        news = [(path, begin, content) for path, begin, content in found["files"] if self._is_ours(path)]
        if not directory.is_dir():
            if found["more"] and ATTEMPT_FILE not in {path for path, _, _ in news}:
                return True  # it comes to its place with its description
            if not self._prepared:
                staging.prepare(str(self._seen.staging))
                self._prepared = True
            whole = {path: content for path, begin, content in news if begin == 0}
            staging.make_directory(str(directory), whole, staging=str(self._seen.staging))
            news = [each for each in news if each[1] != 0]
        for path, begin, content in news:
            _put(directory / path, begin, content)
        return bool(found["more"])

    def _is_ours(self, path: str) -> bool:
        """Whether it is one of the files that we asked for."""
        first, _, rest = path.partition("/")
        node, _, name = rest.partition("/")
        in_node = first == NODES and node not in ("", ".", "..") and name in NODE_FILES
        return path in self._files or in_node


def _put(path: Path, begin: int | None, content: Any) -> None:
    """Bring one copy up to date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if begin is None:
        with suppress(FileNotFoundError, IsADirectoryError):
            path.unlink()
        if content:  # what cannot be read there cannot be read here
            path.mkdir(exist_ok=True)
        return
    if path.is_dir():
        path.rmdir()
    if begin == 0:
        known = _known(path, len(content))
        if known == content:
            os.utime(path)  # of a heartbeat the time is all that changes
            return
        if not grows(path.name) or known is None or not content.startswith(known):
            untrusted.replace(str(path), content)
            return
    if begin + len(content) <= largest_bytes(path.name):
        _place(path, begin, content)


def _known(path: Path, limit_bytes: int) -> bytes | None:
    """The copy that there is, after a new connection; None for one that is longer than what came.

    A report that is replaced is read from its beginning: so one that only grew goes on.
    """
    try:
        return untrusted.read_bytes(str(path), limit_bytes)
    except OSError:
        return None


def _place(path: Path, begin: int, content: bytes) -> None:
    handle = os.open(path, _PLACED)
    try:
        while content:
            written = os.pwrite(handle, content, begin)
            begin, content = begin + written, content[written:]
    finally:
        os.close(handle)
