"""The last lines of a log of any length. Called by the runner after a failure."""

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
    """The last `LINES` lines, oldest first; [] if the file is missing or empty.

    `mask` hides secrets before lines are cut, so no part of a secret remains.

    If the lines begin inside a traceback of Python, its last line of the user's own code precedes them.

    Of a line that is overwritten repeatedly (a progress bar) only the last visible state is kept.
    """
    try:
        end, whole = untrusted.last_bytes(path, _BYTES)
    except OSError:
        return []
    lines = mask.data(end).decode("utf-8", errors="replace").rstrip().split("\n")
    if not whole and len(lines) > 1:
        del lines[0]  # its beginning was not read
    if lines == [""]:
        return []
    return [_visible(line) for line in (*_own_frame(lines), *lines[-LINES:])]


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


def _visible(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2][:_LINE_CHARACTERS]
