"""The random numbers of a search: the stream of NumPy's legacy generator for a seed. Used by `space`.

So an experiment draws the same values here as under Determined with the same seed.
"""

from __future__ import annotations

from random import Random

_WORDS = 624
_MASK = 0xFFFFFFFF


class RandomNumbers:
    """Numbers from a seed; the state is `draws` alone, the number of 32-bit words taken."""

    def __init__(self, seed: int, draws: int = 0) -> None:
        self.draws = draws
        self._random = Random()
        self._random.setstate((3, (*_initial_words(seed & _MASK), _WORDS), None))
        if draws:
            self._random.getrandbits(32 * draws)

    def unit(self) -> float:
        """A number from 0, below 1."""
        return ((self._word() >> 5) * 67108864.0 + (self._word() >> 6)) / 9007199254740992.0

    def uniform(self, low: float, high: float) -> float:
        """A number from `low`, below `high`."""
        return low + (high - low) * self.unit()

    def below(self, count: int) -> int:
        """A whole number from 0, below `count` (1 or more)."""
        limit = count - 1
        if limit <= 0:
            return 0
        mask = (1 << limit.bit_length()) - 1
        while True:
            word = self._word()
            if limit > _MASK:
                word = word << 32 | self._word()
            if (found := word & mask) <= limit:
                return found

    def skip(self, words: int) -> None:
        """Skip words of 32 bits."""
        for _ in range(words):
            self._word()

    def _word(self) -> int:
        self.draws += 1
        return self._random.getrandbits(32)


def _initial_words(seed: int) -> list[int]:
    words = []
    for position in range(1, _WORDS + 1):
        words.append(seed)
        seed = (1812433253 * (seed ^ (seed >> 30)) + position) & _MASK
    return words
