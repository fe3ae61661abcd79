"""New reports of attempts at a site, for `ReportCopies`. Called by `SiteHost`.

A site announces no changes: directories are listed, and only files with another size or time are read, those
that grow from the end of the last read. Several attempts are read at the same time.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from tarmac.engines.sites.wire import RemoteEntry, SiteFiles
from tarmac.node.attempt.protocol import EVENTS_FILE, NODES, REPORTS_FILE
from tarmac.node.host.changes import grows, largest_bytes

T = TypeVar("T")
S = TypeVar("S")

AT_ONCE = 4
"""The number of simultaneous calls: sites limit them for each user."""

REMEMBERED = 8192
STEP_BYTES = 1 << 20

COMPLETE = ".complete"
"""A file in a directory whose other files have all arrived: interfaces show uploads that are under way."""


class Known(NamedTuple):
    """The state of a file at the last read, whose content ended at `end`; `more`: there was more."""

    end: int
    entry: RemoteEntry
    more: bool = False


class SiteChanges:
    """The known files of attempts, by directory and path. Callers make one call at a time."""

    def __init__(self, files: SiteFiles) -> None:
        self._files = files
        self._number = 0
        self._known: dict[str, dict[str, Known]] = {}
        self._written: set[str] = set()

    def note_write(self, path: str) -> None:
        """Read this file in any case: times of a site have whole seconds, and its size may be the same."""
        self._written.add(path)

    def since(
        self, *, number: int, directories: Sequence[str], files: Sequence[str], node_files: Sequence[str]
    ) -> dict[str, Any]:
        """The new content since answer `number`, in the form of `operations.changes`. Raises Unavailable."""
        if number != self._number or len(self._known) > max(REMEMBERED, len(directories)):
            self._known.clear()
        self._number = number + 1
        return {
            "number": self._number,
            "attempts": at_once(lambda each: self._look(each, files, node_files), directories),
        }

    def _look(self, directory: str, files: Sequence[str], names: Sequence[str]) -> dict[str, Any] | None:
        known = dict(self._known.get(directory, {}))
        for path in files:
            if f"{directory}/{path}" in self._written:
                self._written.discard(f"{directory}/{path}")
                known.pop(path, None)
        entries = self._files.listing(directory) or ()
        if not any(entry.path == COMPLETE for entry in entries):
            self._known.pop(directory, None)
            return None
        found = {entry.path: entry for entry in entries if entry.path in files}
        if any(entry.path == NODES for entry in entries):
            found |= {entry.path: entry for entry in self._in_nodes(directory, names)}
        news: list[tuple[str, int | None, Any]] = [(path, None, "") for path in known if path not in found]
        for path, _, _ in news:
            del known[path]
        for path, entry in found.items():
            # A report that preceded a new event may be missing in this list: reports are read in any case.
            node = path.removesuffix(REPORTS_FILE)
            again = node != path and any(each == node + EVENTS_FILE for each, _, _ in news)
            piece = self._new_part(f"{directory}/{path}", entry, known.get(path), again=again)
            if piece is not None:
                news.append((path, piece[0], piece[1]))
                known[path] = piece[2]
        self._known[directory] = known
        return {"files": news, "more": any(each.more for each in known.values())}

    def _in_nodes(self, directory: str, names: Sequence[str]) -> Iterator[RemoteEntry]:
        """The files of these names in the directories of nodes, in the order of the names."""
        nodes = self._files.listing(f"{directory}/{NODES}") or []
        for node in sorted(entry.path for entry in nodes if entry.kind == "directory"):
            there = {entry.path: entry for entry in self._files.listing(f"{directory}/{NODES}/{node}") or ()}
            for name in names:
                if name in there:
                    yield there[name]._replace(path=f"{NODES}/{node}/{name}")

    def _new_part(
        self, path: str, entry: RemoteEntry, known: Known | None, *, again: bool
    ) -> tuple[int | None, Any, Known] | None:
        """Offset and content of the new part of a file, and its new state; None if there is none."""
        name = path.rpartition("/")[2]
        size, end = min(entry.size_bytes, largest_bytes(name)), known.end if known is not None else 0
        same_time = known is not None and known.entry.modified_at == entry.modified_at
        if known is not None and known.end >= size and (grows(name) or same_time) and not again:
            return None
        if entry.kind not in ("file", "link"):
            return None, f"it is a {entry.kind}", Known(0, entry)
        begin = end if known is not None and grows(name) and end <= size else 0
        limit = STEP_BYTES if grows(name) else size
        content = read_all(self._files, path, offset=begin, limit=limit) if entry.size_bytes or again else b""
        if content is None or (known is not None and grows(name) and not content):
            return None
        end = begin + len(content)
        return begin, content, Known(end, entry, more=grows(name) and content != b"" and end < size)


def read_all(files: SiteFiles, path: str, *, offset: int, limit: int) -> bytes | None:
    """At most `limit` bytes of a file, in as many calls as needed; None without such a file."""
    pieces: list[bytes] = []
    while limit > 0:
        piece = files.read(path, offset=offset, limit=min(limit, STEP_BYTES))
        if piece is None:
            return None
        if not piece:
            break
        pieces.append(piece)
        offset, limit = offset + len(piece), limit - len(piece)
        if len(piece) < STEP_BYTES:
            break
    return b"".join(pieces)


def at_once(call: Callable[[S], T], arguments: Sequence[S]) -> list[T]:
    """The results of calls, several at the same time. Raises the first error."""
    if len(arguments) < 2:
        return [call(argument) for argument in arguments]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="site") as threads:
        return list(threads.map(call, arguments))
