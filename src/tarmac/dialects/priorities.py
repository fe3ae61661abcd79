"""Priorities as users write them: on the scale of the file's dialect, or as a word.

Used by the native reader and by overrides.
"""

from __future__ import annotations

from tarmac.dialects.determined import statuses as determined
from tarmac.dialects.kinds import Kind, integer
from tarmac.dialects.located import Scalar

HIGHEST_PRIORITY = 1_000_000
PRIORITY_WORDS = {"highest": 2, "high": 1, "medium": 0, "auto": 0, "low": -1, "lowest": -2}
"""Priorities by name, as in other systems."""


def priority(dialect: str = "native") -> Kind[int]:
    """A number on the dialect's scale, or a word, as a priority of tarmac."""
    of_determined = dialect == "determined"
    if of_determined:
        numbers = integer(determined.FIRST, determined.LAST)
        scale = f"Determined's scale: {determined.FIRST} is first, {determined.USUAL} usual"
        description = f"{numbers.description} ({scale})"
    else:
        numbers = integer(-HIGHEST_PRIORITY, HIGHEST_PRIORITY)
        description = numbers.description

    def read(scalar: Scalar) -> int:
        if scalar.text.lower() in PRIORITY_WORDS:
            return PRIORITY_WORDS[scalar.text.lower()]
        number = numbers.read(scalar)
        return determined.to_tarmac(number) if of_determined else number

    return Kind(f"{description}, or one of {', '.join(PRIORITY_WORDS)},", read)
