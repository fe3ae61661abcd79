"""The last lines of a log, however long it is. Called by the runner when something failed."""

from __future__ import annotations

import os

LINES = 20
_BYTES = 32 * 1024
_LINE_CHARACTERS = 500


def last_lines(path: str) -> list[str]:
    """At most `LINES` last lines, oldest first; [] when there is no such file or nothing in it.

    Of a line drawn over and over (a progress bar) only what was visible last is kept.
    """
    try:
        with open(path, "rb") as file:
            length = os.fstat(file.fileno()).st_size
            start = max(0, length - _BYTES)
            file.seek(start)
            text = file.read(_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return []
    lines = text.rstrip().split("\n")
    if start > 0 and len(lines) > 1:
        del lines[0]  # it began before what was read
    return [_visible(line) for line in lines[-LINES:]] if lines != [""] else []


def _visible(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2][:_LINE_CHARACTERS]
