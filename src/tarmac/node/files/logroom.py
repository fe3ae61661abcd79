"""The logs of one node: their disk space, their sizes over time, and their last lines. Called by hooks.

Workers write directly into their logs, so they never block. The runner frees the middle of a log that is too
long: the file system drops those bytes (a hole); the beginning, the end and every offset stay. It does the
same if the disk itself is nearly full, because a full disk must not prevent stopping the run that fills it:
growing logs then use no more space than they leave free. A note beside the log records the removed range. The
time index beside a log has lines "SECONDS OFFSET": at that time the log was OFFSET bytes long.
"""

from __future__ import annotations

import json
import os
import re
import time
from contextlib import suppress
from typing import Any, Callable, Optional, Sequence

from tarmac.node.files import untrusted
from tarmac.node.files.masking import NO_SECRETS, Mask
from tarmac.node.kernel import syscalls
from tarmac.node.kernel.handles import closing

LOOK_S = 0.4
LOOK_AT_LOW_DISK_S = 0.05
DISK_PART = 20
"""A disk is nearly full with less than a twentieth of it free, or less than `FREE_BYTES`."""

FREE_BYTES = 256 * 1024 * 1024
LEAST_KEPT_BYTES = 1024 * 1024
"""The minimum of an attempt's logs on one node, if other files fill the disk."""

_LONGEST_LINE = 65536
_ENDS = 4
"""A cut log keeps a fourth of its share at its beginning, and as much at its end."""

STEP_S = 1.0

LINES = 20
_BYTES = 32 * 1024
_LINE_CHARACTERS = 500
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "[^"<>]+", line \d+', re.ASCII)
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/")


class LogRoom:
    """The space of some logs. `say` is called once after a cut, and once if a cut is impossible."""

    def __init__(
        self, logs: Sequence[str], *, limit_bytes: Optional[int], say: Callable[[str], object]
    ) -> None:
        self._logs = logs
        self._limit_bytes = limit_bytes
        self._say = say
        self._reports: set[str] = set()
        self.low_disk_due: Optional[float] = None
        """The time of the next check of the logs, on a disk that is nearly full."""
        self._look_due = 0.0
        self._seen_bytes = 0

    def look(self, *, last: bool = False) -> None:
        """Free the excess; checks the size of each file at intervals, and at last once more."""
        now = time.monotonic()
        if (now < self._look_due and not last) or not self._logs:
            return
        self._look_due, self.low_disk_due = now + LOOK_S, None
        sizes = {log: size_bytes for log in self._logs if (size_bytes := allocated_bytes(log))}
        total = sum(sizes.values())
        if self._limit_bytes is not None and total > self._limit_bytes:
            self._report(f"its logs on this node were longer than {size_text(self._limit_bytes)}")
            self._cut(sizes, self._limit_bytes // len(sizes))
            return
        grows, self._seen_bytes = total > self._seen_bytes, total
        low = _low_disk(self._logs[0])
        if low is None:
            return
        self._look_due = self.low_disk_due = now + LOOK_AT_LOW_DISK_S
        if not grows:
            return
        free_bytes, least_bytes = low
        share_bytes = max(min(LEAST_KEPT_BYTES, least_bytes), min(free_bytes + total, least_bytes) // 2)
        if total > max(free_bytes, share_bytes):
            self._report("the disk was almost full")
            self._cut(sizes, share_bytes // len(sizes))
            self._seen_bytes = sum(map(allocated_bytes, self._logs))

    def _cut(self, sizes: dict[str, int], share_bytes: int) -> None:
        for log, size_bytes in sizes.items():
            if size_bytes > share_bytes:
                try:
                    cut(log, keep_bytes=max(1, share_bytes // _ENDS))
                except OSError as problem:
                    self._report(f"a log cannot be shortened here ({problem.strerror})", done=False)

    def _report(self, why: str, *, done: bool = True) -> None:
        if why not in self._reports:
            self._reports.add(why)
            self._say(f"{why}: the middle of long ones is left out" if done else why)


def cut(log: str, *, keep_bytes: int) -> None:
    """Free the middle of a log and record that in its note; raises OSError if that is impossible."""
    with closing(untrusted.open_to_append(log)) as handle:
        begin, end = keep_bytes, os.fstat(handle).st_size - keep_bytes
        if end <= begin:
            return
        begin = _line_begin(log, begin)
        syscalls.punch(handle, begin, end - begin)
    before = gap_of(untrusted.object_at(cut_note(log)))
    if before is not None:
        begin, end = min(begin, before[0]), max(end, before[1])
    with suppress(OSError):
        untrusted.replace(cut_note(log), json.dumps({"begin": begin, "end": end}).encode())


def cut_note(log: str) -> str:
    """The file with the removed range of a log: {"begin", "end"}."""
    return f"{log.removesuffix('.log')}.cut"


def gap_of(note: dict[str, Any]) -> Optional[tuple[int, int]]:
    """The first removed byte and the first byte after the gap, from a note; None if there is no gap."""
    begin, end = note.get("begin"), note.get("end")
    return (begin, end) if type(begin) is int and type(end) is int and 0 <= begin < end else None


def allocated_bytes(path: str) -> int:
    """The disk space of a file."""
    found = untrusted.lstat(path)
    return found.st_blocks * 512 if found else 0


def _line_begin(log: str, offset: int) -> int:
    """The beginning of the line that contains an offset, if it is near: the kept part ends with a line."""
    start = max(0, offset - _LONGEST_LINE)
    with suppress(OSError):
        return start + untrusted.read_part(log, start, offset - start).rfind(b"\n") + 1 or offset
    return offset


def _low_disk(log: str) -> Optional[tuple[int, int]]:
    """The free bytes of a log's disk and the required ones; None if there are enough."""
    try:
        found = os.statvfs(os.path.dirname(log))
    except OSError:
        return None
    least = min(FREE_BYTES, found.f_blocks * found.f_frsize // DISK_PART)
    free_bytes = found.f_bavail * found.f_frsize
    return (free_bytes, least) if free_bytes < least else None


def size_text(size_bytes: int) -> str:
    """A number of bytes for people."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes} bytes"


class TimeIndex:
    """Writes the index of one log, a line at most once a second and only when the log grew."""

    def __init__(self, log: str, index: str) -> None:
        self._log = log
        self._index = index
        self._offset_bytes = 0
        self._noted_at = 0.0

    def note(self, now: float, *, final: bool = False) -> None:
        """Add a line if the log grew since the last one; `final` ignores the interval."""
        if not final and now - self._noted_at < STEP_S:
            return
        with suppress(OSError):  # the index is optional: without space or log there is none
            length = os.stat(self._log).st_size
            if length != self._offset_bytes:
                untrusted.append_text(self._index, f"{now:.3f} {length}\n")
                self._offset_bytes, self._noted_at = length, now


def last_lines(path: str, mask: Mask = NO_SECRETS) -> list[str]:
    """The last `LINES` lines, oldest first; [] if the file is missing or empty.

    `mask` hides secrets before lines are cut, so no part of a secret remains.

    If the lines begin inside a traceback of Python, its last line of the user's own code precedes them.

    Of a line that is overwritten repeatedly (a progress bar) only the last visible state is kept.
    """
    end, whole = untrusted.last_bytes(path, _BYTES)
    lines = mask.data(end).decode("utf-8", errors="replace").rstrip().split("\n")
    if not whole and len(lines) > 1:
        del lines[0]  # its beginning was not read
    if lines == [""]:
        return []
    found = (line.rstrip("\r").rpartition("\r")[2] for line in (*_own_frame(lines), *lines[-LINES:]))
    return [line[:_LINE_CHARACTERS] for line in found]


def _own_frame(lines: list[str]) -> list[str]:
    """The innermost frame outside of libraries, with its source, in a traceback before the last lines."""
    found: list[str] = []
    for index in range(len(lines) - LINES - 1, -1, -1):
        if lines[index].startswith(_TRACEBACK):
            return found
        if not lines[index].startswith("  "):
            return []
        if not found and _FRAME.match(lines[index]) and not _LIBRARY.search(lines[index]):
            found = [*lines[index : min(index + 2, len(lines) - LINES)], "  ..."]
    return []
