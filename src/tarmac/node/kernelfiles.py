"""Small files of the kernel, in /proc and /sys. Called by `limits`, `memory` and `namespaces`."""

from __future__ import annotations


def lines(path: str) -> list[str]:
    """The lines of a file; none where it is not there or may not be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().splitlines()
    except OSError:
        return []
