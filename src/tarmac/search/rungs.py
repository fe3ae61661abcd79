"""The lengths of asha's trials, its brackets, and the trials of each. Used by the methods and `preview`."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.api import PreviewLine
from tarmac.model.search import HALVING, SearchMethod, SearchMode, SearchSpec
from tarmac.search.space import grid_size


@dataclass(frozen=True, slots=True)
class Bracket:
    """Trials that are compared with one another: their lengths, their number, and how many run at once."""

    lengths: tuple[int, ...]
    max_trials: int
    concurrent: int


def brackets_of(spec: SearchSpec) -> tuple[Bracket, ...]:
    """The brackets of an asha search: one, or several that an adaptive one spreads its trials over."""
    longest, trials = spec.max_time or 1, spec.max_trials or 1
    if spec.method is SearchMethod.ASHA:
        rungs = spec.num_rungs or bracket_limit(spec)
        made = rung_lengths(rungs, spec.divisor, longest)
        most = spec.max_concurrent_trials or int(spec.divisor ** (rungs - 1))
        return (Bracket(made, trials, max(min(most, trials), 1)),)
    counts = bracket_rungs(spec)
    shares = split_trials(trials, spec.divisor, counts)
    at_once = split_concurrent(spec.max_concurrent_trials, spec.divisor, shares)
    return tuple(
        Bracket(rung_lengths(rungs, spec.divisor, longest), share, min(most, share))
        for rungs, share, most in zip(counts, shares, at_once, strict=True)
    )


def rung_lengths(rungs: int, divisor: float, longest: int) -> tuple[int, ...]:
    """The lengths at which trials are compared, counted from their beginning; the shortest first."""
    return tuple(max(int(longest / divisor ** (rungs - 1 - place)), 1) for place in range(rungs))


def bracket_limit(spec: SearchSpec) -> int:
    """The useful number of rungs for this number of trials and this length."""
    found = spec.max_rungs
    for most in (spec.max_time or 1, spec.max_trials or 1):
        found = min(found, int(math.log(most) / math.log(spec.divisor)) + 1)
    return max(found, 1)


def bracket_rungs(spec: SearchSpec) -> tuple[int, ...]:
    """The number of rungs of each bracket of an adaptive search, most first."""
    if spec.bracket_rungs:
        return tuple(sorted(spec.bracket_rungs, reverse=True))
    most = bracket_limit(spec)
    least = {
        SearchMode.AGGRESSIVE: most,
        SearchMode.STANDARD: (most - 1) // 2 + 1,
        SearchMode.CONSERVATIVE: 1,
    }[spec.mode]
    return tuple(range(most, least - 1, -1))


def split_trials(trials: int, divisor: float, rungs: Sequence[int]) -> tuple[int, ...]:
    """The number of trials of each bracket, so that each costs about the same."""
    weights = [divisor ** (count - 1) / count for count in rungs]
    shares = [max(int(weight / sum(weights) * trials), 1) for weight in weights]
    shares[0] += max(trials - sum(shares), 0)
    return tuple(shares)


def split_concurrent(most: int, divisor: float, shares: Sequence[int]) -> tuple[int, ...]:
    """The number of concurrent trials of each bracket. `most` 0: as many as the smallest bracket has."""
    if most == 0:
        return (max(shares[-1], int(divisor)),) * len(shares)
    each, left = divmod(max(most, len(shares)), len(shares))
    return tuple(each + (place < left) for place in range(len(shares)))


def trials_of(spec: SearchSpec) -> int:
    """The number of trials of a search."""
    fixed = {SearchMethod.SINGLE: 1, SearchMethod.GRID: grid_size(spec)}
    return fixed.get(spec.method, spec.max_trials or 1)


def preview(spec: SearchSpec) -> tuple[PreviewLine, ...]:
    """The trials of a search by length, shortest first, if each rung keeps its best."""
    if spec.method not in HALVING:
        return (PreviewLine(trials_of(spec), spec.max_time),)
    least = 0 if spec.promotion else 1
    found: Counter[int] = Counter()
    for bracket in brackets_of(spec):
        left = bracket.max_trials
        for rung, length in enumerate(bracket.lengths):
            top = rung == len(bracket.lengths) - 1
            following = 0 if top else max(int(left / spec.divisor), least)
            found[length] += left - following
            left = following
    return tuple(PreviewLine(count, length) for length, count in sorted(found.items()) if count)
