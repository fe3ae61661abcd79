"""File systems that are soon full, for tests that root runs."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[None]:
    """A file system of that size, mounted on the directory."""
    directory.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tarmac-test", directory], check=True
    )
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", directory], check=True)
