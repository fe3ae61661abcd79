"""Copies the reports of attempts at a host to this machine, for views. Used by `remote` and Ray nodes.

Only small files: logs stay there. One request serves all attempts, and returns what is new. Runs may have
written the content: its paths are checked, and reading limits its size. A copy can always be discarded: the
first answer over a new connection contains everything.
"""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Any

from tarmac.engines.attempts.layout import Layout
from tarmac.model.errors import Unavailable
from tarmac.node.attempt import protocol
from tarmac.node.files import staging, untrusted
from tarmac.node.host.changes import grows, largest_bytes

FILES = (protocol.ATTEMPT_FILE, protocol.ASK_FILE, protocol.CLEARED_FILE)
NODE_FILES = (
    protocol.CLAIM_FILE,
    protocol.EVENTS_FILE,
    protocol.HEARTBEAT_FILE,
    protocol.UTILIZATION_FILE,
    protocol.REPORTS_FILE,
)
"""The copied files of an attempt and its nodes: reports last, so that none is missing at the end."""

ROUNDS = 40
"""Maximum number of consecutive requests: enough for a file of the largest size."""

_PLACED = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Call = Callable[..., Any]
"""`operations.changes` at the host."""


class ReportCopies:
    """Copies, below `seen`, of files below `layout` at the host. Thread-safe.

    `files` are those of an attempt, beside `NODE_FILES` of its nodes.
    """

    def __init__(self, layout: Layout, seen: Layout, *, files: Sequence[str] = FILES) -> None:
        self._files = files
        self._layout = layout
        self._seen = seen
        self._lock = Lock()
        self._numbers: tuple[object, int] = (None, 0)
        self._prepared = False

    def refresh(self, attempt_ids: Sequence[str], call: Call, connection: object) -> None:
        """Update the copies of attempts; those that are not at the host are skipped.

        `connection` is the one that `call` uses: over another one, everything is sent again. Raises
        Unavailable.
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
                    self._numbers = (None, 0)  # the answer was not stored completely: it must be sent again
                    raise Unavailable(f"{error.filename or self._seen.home}: {error.strerror}") from None
                self._numbers = (connection, int(answer["number"]))
                pending = [place for place, again in zip(pending, more, strict=True) if again]

    def _apply(self, directory: Path, found: dict[str, Any] | None) -> bool:
        """Store the new content of an attempt; return whether there is more."""
        if found is None:
            return False
        news = [(path, begin, content) for path, begin, content in found["files"] if self._is_ours(path)]
        if not directory.is_dir():
            if found["more"] and protocol.ATTEMPT_FILE not in {path for path, _, _ in news}:
                return True  # the directory appears together with its description
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
        """Whether the path is one of the requested files."""
        first, _, rest = path.partition("/")
        node, _, name = rest.partition("/")
        in_node = first == protocol.NODES and node not in ("", ".", "..") and name in NODE_FILES
        return path in self._files or in_node


def _put(path: Path, begin: int | None, content: Any) -> None:
    """Update one copy."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if begin is None:
        with suppress(FileNotFoundError, IsADirectoryError):
            path.unlink()
        if content:  # files that are unreadable there must be unreadable here
            path.mkdir(exist_ok=True)
        return
    if path.is_dir():
        path.rmdir()
    if begin == 0:
        known = _known(path, len(content))
        if known == content:
            os.utime(path)  # a heartbeat changes only its time
            return
        if not grows(path.name) or known is None or not content.startswith(known):
            untrusted.replace(str(path), content)
            return
    if begin + len(content) <= largest_bytes(path.name):
        with os.fdopen(os.open(path, _PLACED), "r+b") as copy:
            copy.seek(begin)
            copy.write(content)


def _known(path: Path, limit_bytes: int) -> bytes | None:
    """The existing copy, after a new connection; None if it is longer than the new content.

    A replaced report is read from its beginning, so one that only grew must be continued.
    """
    try:
        return untrusted.read_bytes(str(path), limit_bytes)
    except OSError:
        return None
