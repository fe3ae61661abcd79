"""The layout of a directory of code: snapshots by digest, packs with contents, and unfinished files.

Used by the runner and by `receive`, which run without an installed tarmac, and by `artifacts`, which writes
it.
"""

from __future__ import annotations

PACKS = "packs"
"""The directory of the packs, beside the snapshots."""

PACK_SUFFIX = ".pack"
PARTIAL_PREFIX = ".partial-"


def is_digest(text: str) -> bool:
    """Whether a text has the form of a digest of a snapshot or content: a SHA-256 in hexadecimal digits."""
    return len(text) == 64 and not text.strip("0123456789abcdef")
