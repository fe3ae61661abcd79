"""Amounts as a run file writes them, and the leaving out of what says nothing. Called by the writers."""

from __future__ import annotations

from typing import Any

Fields = dict[str, Any]
"""A mapping of a run file, in the order of its lines."""


def given(fields: Fields) -> Fields:
    """Those that say something."""
    return {name: value for name, value in fields.items() if value is not None and value not in ([], {})}


def written_duration(seconds: float | None) -> str | None:
    """In the largest unit that makes a whole number of it."""
    if seconds is None:
        return None
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size:.0f}{unit}"
    return f"{written_number(seconds)}s"


def written_size(size_bytes: int) -> str:
    """In the largest unit that makes a whole number of it."""
    for unit, power in (("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    return f"{size_bytes}B"


def written_number(value: float) -> int | float:
    """Without a fraction where there is none."""
    return int(value) if float(value).is_integer() else value
