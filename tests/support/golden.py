"""Compares what the code makes with files that were read by a person: golden tests.

With GOLDEN_WRITE=1 in the environment the files are written instead; read the difference before you
commit it.
"""

from __future__ import annotations

import os
from pathlib import Path


def assert_golden(path: Path, found: str) -> None:
    """`found` is what the file at `path` holds."""
    if os.environ.get("GOLDEN_WRITE") == "1":
        path.write_text(found, encoding="utf-8")
    assert path.exists(), f"{path} is missing: run with GOLDEN_WRITE=1 and read what it says"
    assert found == path.read_text(encoding="utf-8")
