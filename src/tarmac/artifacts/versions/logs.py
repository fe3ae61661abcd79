"""Which files stay useful wherever their writing ends: logs.

A log is often held open for as long as its program runs. One that is cut short lacks its last lines at most,
so it is kept as far as it goes; a checkpoint that is cut short is none.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from tarmac.node.files import untrusted

_PIECE_BYTES = 4096
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\b\x1b")
_DATABASE = b"SQLite format 3\0"
_DATABASE_PARTS = ("-wal", "-shm", "-journal")
_EVENTS = "tfevents"


def is_log(path: Path) -> bool:
    """Whether a file is lines of text, the events of TensorBoard, or a database that survives a cut."""
    if _EVENTS in path.name or path.name.endswith(_DATABASE_PARTS):
        return True
    try:
        with os.fdopen(untrusted.open_to_read(str(path)), "rb") as file:
            head = file.read(_PIECE_BYTES)
            file.seek(max(0, file.seek(0, 2) - _PIECE_BYTES))
            tail = file.read(_PIECE_BYTES)
    except OSError:
        return False
    if head.startswith(_DATABASE):
        return True
    return b"\n" in head and _is_text(head) and _is_text(tail) and not _is_document(head)


def _is_text(piece: bytes) -> bool:
    """A character cut at either end is none the less text."""
    if any(byte < 32 and byte not in _TEXT_CONTROLS for byte in piece):
        return False
    return "\ufffd" not in piece.decode("utf-8", "replace")[3:-3]


def _is_document(head: bytes) -> bool:
    """Whether it is one JSON document, which is half until its last bracket; not one on each line."""
    if head.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(head.split(b"\n", 1)[0])
    except ValueError:
        return True
    return b"\n" not in head
