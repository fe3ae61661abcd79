"""Priorities as users write them: on the scale of the file's dialect, or as a word.

Used by the native reader and by overrides.
"""

from dataclasses import dataclass

from tarmac.dialects.kinds import Kind, integer
from tarmac.dialects.located import Scalar

HIGHEST_PRIORITY = 1_000_000
PRIORITY_WORDS = {"highest": 2, "high": 1, "medium": 0, "auto": 0, "low": -1, "lowest": -2}
"""Priorities by name, as in other systems."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """A scale of a system whose smaller numbers are sooner; `usual` is 0 on tarmac's."""

    system: str
    first: int
    usual: int
    last: int

    def to_tarmac(self, number: int) -> int:
        """The priority on tarmac's scale."""
        return self.usual - number


def priority(scale: Scale | None = None) -> Kind[int]:
    """A number on this scale (by default tarmac's), or a word, as a priority of tarmac."""
    if scale is not None:
        numbers = integer(scale.first, scale.last)
        words = f"{scale.system}'s scale: {scale.first} is first, {scale.usual} usual"
        description = f"{numbers.description} ({words})"
    else:
        numbers = integer(-HIGHEST_PRIORITY, HIGHEST_PRIORITY)
        description = numbers.description

    def read(scalar: Scalar) -> int:
        if scalar.text.lower() in PRIORITY_WORDS:
            return PRIORITY_WORDS[scalar.text.lower()]
        number = numbers.read(scalar)
        return number if scale is None else scale.to_tarmac(number)

    return Kind(f"{description}, or one of {', '.join(PRIORITY_WORDS)},", read)
