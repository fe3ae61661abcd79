"""Values from the ranges of a search: drawn at random, or all points of a grid. Used by `searching`.

Random numbers are those of NumPy's legacy generator for a seed: so an experiment draws the same values here
as under Determined with the same seed.
"""

import math
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec, nested
from tarmac.search.moves import TrialEnd

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
        self.draws += words
        self._random.getrandbits(32 * words)

    def _word(self) -> int:
        self.draws += 1
        return self._random.getrandbits(32)


def _initial_words(seed: int) -> list[int]:
    words = []
    for position in range(1, _WORDS + 1):
        words.append(seed)
        seed = (1812433253 * (seed ^ (seed >> 30)) + position) & _MASK
    return words


REQUEST_WORDS = 4
"""Words that Determined draws for the id of a trial between its values and its seed."""

SEEDS = 2**31


class RandomSampler:
    """Random parameters from the seed of a search; for a grid, its points one after the other."""

    def __init__(self, spec: SearchSpec) -> None:
        self._spec = spec
        self._numbers = RandomNumbers(spec.seed)

    def draw(self, trial: int) -> tuple[dict[str, Any], int]:
        if self._spec.method is SearchMethod.GRID:
            return grid_point(self._spec, trial - 1), _seed(self._numbers)
        return draw(self._spec.space, self._numbers)

    def validation(self, _trial: int, _length: float, _metric: float, /) -> bool:
        """Returns False: this sampler does not learn."""
        return False

    def ended(self, _trial: int, _how: TrialEnd, _closed: bool, /) -> None:
        """Does nothing: this sampler does not learn."""

    @property
    def state(self) -> dict[str, Any]:
        return {"draws": self._numbers.draws}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._numbers = RandomNumbers(self._spec.seed, state["draws"])


def draw(space: Sequence[ParameterRange], numbers: RandomNumbers) -> tuple[dict[str, Any], int]:
    """The parameters of the next trial, in the order of their paths, and its own seed."""
    ordered = sorted(space, key=lambda item: item.path)
    values = {item.path: _drawn(item, numbers) for item in ordered}
    return nested(values), _seed(numbers)


def _seed(numbers: RandomNumbers) -> int:
    numbers.skip(REQUEST_WORDS)
    return numbers.below(SEEDS)


def _drawn(item: ParameterRange, numbers: RandomNumbers) -> Any:
    match item.kind:
        case RangeKind.CONST:
            return item.values[0]
        case RangeKind.CHOICE:
            return item.values[numbers.below(len(item.values))]
        case RangeKind.INT:
            return int(item.low) + numbers.below(int(item.high) - int(item.low) + 1)
        case RangeKind.UNIFORM:
            return numbers.uniform(item.low, item.high)
        case RangeKind.LOG:
            return power(item.base, numbers.uniform(item.low, item.high))


def power(base: float, exponent: float) -> float:
    """`base` to the `exponent`, at most the largest floating-point number."""
    try:
        return float(base**exponent)
    except OverflowError:
        return math.nextafter(math.inf, 0.0)


def grid_size(spec: SearchSpec) -> int:
    """The number of points of a grid."""
    return math.prod(len(_points(item)) for item in spec.space)


def grid_point(spec: SearchSpec, index: int) -> dict[str, Any]:
    """The parameters at a place of the grid: the last parameter changes first. `reverse`: from its end."""
    ordered = sorted(spec.space, key=lambda item: item.path)
    index = grid_size(spec) - 1 - index if spec.reverse else index
    values: dict[tuple[str, ...], Any] = {}
    for item in reversed(ordered):
        points = _points(item)
        index, place = divmod(index, len(points))
        values[item.path] = points[place]
    return nested({item.path: values[item.path] for item in ordered})


def _points(item: ParameterRange) -> tuple[Any, ...]:
    if item.kind in (RangeKind.CONST, RangeKind.CHOICE):
        return item.values
    if item.kind is RangeKind.INT:
        low, high = int(item.low), int(item.high)
        return tuple(_rounded(place) for place in _steps(low, high, min(item.count or 1, high - low + 1)))
    points = _steps(item.low, item.high, item.count or 1)
    return points if item.kind is RangeKind.UNIFORM else tuple(power(item.base, at) for at in points)


def _steps(low: float, high: float, count: int) -> tuple[float, ...]:
    if count == 1:
        return (low + (high - low) / 2,)
    return tuple(low + place * (high - low) / (count - 1) for place in range(count))


def _rounded(value: float) -> int:
    """To the nearest whole number, halves away from zero."""
    return int(math.copysign(math.floor(abs(value) + 0.5), value))
