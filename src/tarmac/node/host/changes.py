"""New reports of attempts, for an engine that reads their directories from another machine.

Called by `operations`. Runs can write all of these files: each is read defensively, up to a limit.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from typing import Any, Iterator, NamedTuple, Optional, Sequence

from tarmac.node.attempt import protocol
from tarmac.node.attempt.protocol import NODES, AttemptPaths, rank_name
from tarmac.node.files import untrusted
from tarmac.node.kernel.handles import closing

LARGEST_BYTES = 8 * 1024 * 1024
"""Maximum bytes per file, except reports."""

STEP_BYTES = 256 * 1024
REPORTS_STEP_BYTES = 2 * 1024 * 1024
ANSWER_BYTES = 16 * 1024 * 1024
"""The maximum of a growing file in one answer (more for reports), and roughly that of all of them."""

REMEMBERED = 8192

_NODE = re.compile(f"{re.escape(rank_name(0)[:-1])}[0-9]{{1,5}}")


class Sent(NamedTuple):
    """The other side's state of a file: its identity, size and time. `problem`: it cannot be read."""

    inode: int
    end: int
    changed_ns: int
    more: bool = False
    problem: str = ""


class Changes:
    """The other side's state of the attempts that it has requested."""

    def __init__(self) -> None:
        self._number = 0
        self._sent: OrderedDict[str, dict[str, Sent]] = OrderedDict()

    def since(
        self, number: int, directories: Sequence[str], files: Sequence[str], node_files: Sequence[str]
    ) -> dict[str, Any]:
        """The new content of these directories of attempts since answer `number`, the last one to arrive.

        {"number", "attempts": [one for each directory]}: None without such a directory, else {"files":
        [[path, begin, content]], "more"}. `begin` is the offset of the content in the file. None means that
        the file is gone or unreadable: then the content is the reason. `more`: there is more to request.
        """
        if number != self._number:
            self._sent.clear()
        self._number = number + 1
        room = ANSWER_BYTES
        attempts: list[Optional[dict[str, Any]]] = []
        for directory in directories:
            if not os.path.isdir(directory):
                self._sent.pop(directory, None)
                attempts.append(None)
                continue
            news, more = self._of(directory, files, node_files, room)
            room -= sum(len(content) for _, _, content in news)
            attempts.append({"files": news, "more": more})
        while len(self._sent) > max(REMEMBERED, len(directories)):
            self._sent.popitem(last=False)
        return {"number": self._number, "attempts": attempts}

    def _of(
        self, directory: str, files: Sequence[str], node_files: Sequence[str], room: int
    ) -> tuple[list[tuple[str, Optional[int], Any]], bool]:
        """The new content of one directory, and whether there is more."""
        sent = self._sent.setdefault(directory, {})
        self._sent.move_to_end(directory)
        news: list[tuple[str, Optional[int], Any]] = []
        for path in (*files, *_in_nodes(directory, node_files)):
            if room <= 0:
                return news, True
            found = _look(directory, path, sent.get(path))
            if found is None:
                continue
            begin, content, known = found
            news.append((path, begin, content))
            room -= len(content)
            if known is None:
                del sent[path]
            else:
                sent[path] = known
        return news, any(known.more for known in sent.values())


def grows(name: str) -> bool:
    """Whether a file of this name is append-only: then its new part is enough."""
    return name in (protocol.EVENTS_FILE, protocol.REPORTS_FILE)


def largest_bytes(name: str) -> int:
    """The maximum passed on from a file of this name."""
    return protocol.LONGEST_REPORTS_BYTES if name == protocol.REPORTS_FILE else LARGEST_BYTES


def _look(
    directory: str, path: str, known: Optional[Sent]
) -> Optional[tuple[Optional[int], Any, Optional[Sent]]]:
    """The offset of new content, the content, and the new state; None if there is no new content."""
    name = os.path.basename(path)
    adds, step_bytes = grows(name), REPORTS_STEP_BYTES if name == protocol.REPORTS_FILE else STEP_BYTES
    try:
        handle = untrusted.open_to_read(os.path.join(directory, path))
    except FileNotFoundError:
        return None if known is None else (None, "", None)
    except OSError as error:
        problem = Sent(0, 0, 0, problem=error.strerror or "it cannot be read")
        return None if known == problem else (None, problem.problem, problem)
    with closing(handle):
        found = os.fstat(handle)
        size = min(found.st_size, largest_bytes(name))
        begin = 0
        if known is not None and known.inode == found.st_ino:
            if known.end == size and (adds or known.changed_ns == found.st_mtime_ns):
                return None
            begin = known.end if adds and known.end < size else 0
        content = untrusted.pread(handle, begin, min(size - begin, step_bytes if adds else size))
    end = begin + len(content)
    return begin, content, Sent(found.st_ino, end, found.st_mtime_ns, more=content != b"" and end < size)


def _in_nodes(directory: str, names: Sequence[str]) -> Iterator[str]:
    """The paths of these files in the existing directories of nodes that are not links."""
    for node in sorted(filter(_NODE.fullmatch, AttemptPaths(directory).node_names())):
        place = os.path.join(directory, NODES, node)
        if os.path.isdir(place) and not os.path.islink(place):
            yield from (f"{NODES}/{node}/{name}" for name in names)
