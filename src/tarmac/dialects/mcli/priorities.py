"""The priority words of all versions of MCLI. Used by the reader, and for `--priority high`."""

from __future__ import annotations

PRIORITIES = {
    "highest": 2,
    "high": 1,
    "medium": 0,
    "auto": 0,
    "default": 0,
    "low": -1,
    "lowest": -2,
}
"""What each word means inside tarmac, where a bigger number is sooner; without regard to case."""
