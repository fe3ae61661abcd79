"""Whether the file of a SQLite database is whole: asked by `sql.SqlStore` for the check at start."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

FINDINGS = 3
"""How many things wrong are named."""

_STEPS = 20_000
"""How many steps SQLite takes before it is asked whether to go on."""


def damage(path: Path, *, limit_s: float, proceed: Callable[[], bool]) -> str | None:
    """What is wrong with the file; None when nothing was found in this time, while `proceed()`."""
    deadline = time.monotonic() + limit_s
    connection = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)
    try:
        connection.set_progress_handler(lambda: not proceed() or time.monotonic() > deadline, _STEPS)
        found = [row[0] for row in connection.execute(f"PRAGMA quick_check({FINDINGS})")]
    except sqlite3.DatabaseError as error:
        damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in (
            sqlite3.SQLITE_CORRUPT,
            sqlite3.SQLITE_NOTADB,
        )
        return str(error) if damaged else None  # else it was interrupted, or is locked: that says nothing
    finally:
        connection.close()
    return None if found == ["ok"] else "; ".join(" ".join(text.split()) for text in found)
