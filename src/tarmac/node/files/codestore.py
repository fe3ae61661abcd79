"""What a directory of code looks like: a snapshot by its digest, packs with contents, and what is half made.

Used by the runner and by `receive`, which run where there is no tarmac, and by `artifacts`, which writes it.
"""

from __future__ import annotations

PACKS = "packs"
"""The directory of the packs, beside the snapshots."""

PACK_SUFFIX = ".pack"
PARTIAL_PREFIX = ".partial-"


def is_digest(text: str) -> bool:
    """Whether this can be the name of a snapshot or of a content: a SHA-256 in hexadecimal digits."""
    return len(text) == 64 and not text.strip("0123456789abcdef")
