"""Makes names survive a power failure. Called after a finished file has got its name."""

from __future__ import annotations

import os
from pathlib import Path


def flush_directory(path: Path) -> None:
    """Flush the names in a directory to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
