"""How far the trials of asha go, in how many brackets, with how many trials in each. Used by the methods."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tarmac.model.search import SearchMethod, SearchMode, SearchSpec


@dataclass(frozen=True, slots=True)
class Bracket:
    """Trials that are compared with one another: at these lengths, so many, so many of them at once."""

    lengths: tuple[int, ...]
    max_trials: int
    concurrent: int


def brackets_of(spec: SearchSpec) -> tuple[Bracket, ...]:
    """The brackets of an asha search: one, or those that an adaptive one spreads its trials over."""
    longest, trials = spec.max_time or 1, spec.max_trials or 1
    lengths = cumulative_lengths if spec.promotion else rung_lengths
    if spec.method is SearchMethod.ASHA:
        rungs = spec.num_rungs or bracket_limit(spec)
        made = lengths(rungs, spec.divisor, longest)
        return (Bracket(made, trials, _concurrent_of_one(spec, rungs, trials)),)
    counts = bracket_rungs(spec)
    shares = split_trials(trials, spec.divisor, counts)
    at_once = split_concurrent(spec, counts, shares)
    return tuple(
        Bracket(lengths(rungs, spec.divisor, longest), share, most)
        for rungs, share, most in zip(counts, shares, at_once, strict=True)
    )


def rung_lengths(rungs: int, divisor: float, longest: int) -> tuple[int, ...]:
    """The lengths at which trials are compared, shortest first."""
    return tuple(max(int(longest / divisor ** (rungs - 1 - place)), 1) for place in range(rungs))


def cumulative_lengths(rungs: int, divisor: float, longest: int) -> tuple[int, ...]:
    """The same where each rung begins where the one before ended, as searches that promote have it."""
    found, total = [], 0
    for length in rung_lengths(rungs, divisor, longest):
        total += length
        found.append(total)
    return tuple(found)


def bracket_limit(spec: SearchSpec) -> int:
    """How many rungs make sense with so many trials of such a length."""
    found = spec.max_rungs
    for most in (spec.max_time or 1, spec.max_trials or 1):
        found = min(found, int(math.log(most) / math.log(spec.divisor)) + 1)
    return max(found, 1)


def bracket_rungs(spec: SearchSpec) -> tuple[int, ...]:
    """How many rungs each bracket of an adaptive search has, most first."""
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
    """How many trials each bracket has, so that each costs about the same."""
    weights = [divisor ** (count - 1) / count for count in rungs]
    shares = [max(int(weight / sum(weights) * trials), 1) for weight in weights]
    shares[0] += max(trials - sum(shares), 0)
    return tuple(shares)


def split_concurrent(spec: SearchSpec, rungs: Sequence[int], shares: Sequence[int]) -> tuple[int, ...]:
    """How many trials of each bracket are under way at once."""
    if spec.max_concurrent_trials == 0:
        most = max(shares[-1], int(spec.divisor))
        return tuple(min(most, share) for share in shares)
    total = max(spec.max_concurrent_trials, len(rungs))
    each, left = divmod(total, len(rungs))
    return tuple(max(min(each + (left if place == 0 else 0), share), 1) for place, share in enumerate(shares))


def _concurrent_of_one(spec: SearchSpec, rungs: int, trials: int) -> int:
    most = spec.max_concurrent_trials or int(spec.divisor ** (rungs - 1))
    return max(min(most, trials), 1)
