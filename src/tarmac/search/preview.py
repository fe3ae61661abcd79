"""A preview of a search: the number of its trials by length. Called by `control`."""

from __future__ import annotations

from collections import Counter

from tarmac.api import PreviewLine
from tarmac.model.search import HALVING, SearchMethod, SearchSpec
from tarmac.search.rungs import brackets_of
from tarmac.search.space import grid_size


def preview(spec: SearchSpec) -> tuple[PreviewLine, ...]:
    """The trials of a search by length, shortest first, if each rung keeps its best."""
    if spec.method not in HALVING:
        count = {SearchMethod.SINGLE: 1, SearchMethod.GRID: grid_size(spec)}.get(spec.method)
        return (PreviewLine(count if count is not None else spec.max_trials or 1, spec.max_time),)
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
