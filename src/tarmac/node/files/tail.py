"""The last lines of a log, however long it is. Called by the runner when something failed."""

from __future__ import annotations

import re

from tarmac.node.files import untrusted
from tarmac.node.files.masking import NO_SECRETS, Mask

LINES = 20
_BYTES = 32 * 1024
_LINE_CHARACTERS = 500
_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "[^"<>]+", line \d+', re.ASCII)
_LIBRARY = re.compile(r"/(site|dist)-packages/|/lib/python3[^/]*/")


def last_lines(path: str, mask: Mask = NO_SECRETS) -> list[str]:
    """The last `LINES` lines, oldest first; [] when there is no such file or nothing in it.

    What `mask` hides is hidden before lines are cut: no part of a secret stays.

    Where they begin in the middle of a traceback of Python, its last line of the user's own goes before them.

    Of a line drawn over and over (a progress bar) only what was visible last is kept.
    """
    try:
        end, whole = untrusted.last_bytes(path, _BYTES)
    except OSError:
        return []
    lines = mask.data(end).decode("utf-8", errors="replace").rstrip().split("\n")
    if not whole and len(lines) > 1:
        del lines[0]  # it began before what was read
    if lines == [""]:
        return []
    return [_visible(line) for line in (*_own_frame(lines), *lines[-LINES:])]


def _own_frame(lines: list[str]) -> list[str]:
    """What the last lines cut off of a traceback: the innermost frame outside of libraries, its source."""
    found: list[str] = []
    for index in range(len(lines) - LINES - 1, -1, -1):
        if lines[index].startswith(_TRACEBACK):
            return found
        if not lines[index].startswith("  "):
            return []
        if not found and _FRAME.match(lines[index]) and not _LIBRARY.search(lines[index]):
            found = [*lines[index : min(index + 2, len(lines) - LINES)], "  ..."]
    return []


def _visible(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2][:_LINE_CHARACTERS]
