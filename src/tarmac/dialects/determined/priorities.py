"""Determined's scale of priorities, on which 1 is first, and tarmac's, on which a bigger number is sooner.

Used by the reader, by overrides, and by the commands that change and show Determined's queue.
"""

from __future__ import annotations

FIRST, USUAL, LAST = 1, 42, 99


def to_tarmac(priority: int) -> int:
    """The same on tarmac's scale: the usual one is 0."""
    return USUAL - priority


def of_tarmac(priority: int) -> int:
    """The same on Determined's; it may lie beyond the ends of that."""
    return USUAL - priority
