"""Rungs, brackets and previews of asha searches: published values (D10)."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api import PreviewLine
from tarmac.model.search import SearchMethod, SearchMode, SearchSpec
from tarmac.search.halving import Ranking, StoppingHalving
from tarmac.search.moves import Stop
from tarmac.search.rungs import (
    Bracket,
    bracket_rungs,
    brackets_of,
    preview,
    rung_lengths,
    split_concurrent,
    split_trials,
)


def _adaptive(mode: SearchMode, **more: Any) -> SearchSpec:
    values: dict[str, Any] = {"max_time": 900, "divisor": 3.0, "max_trials": 10} | more
    return SearchSpec(method=SearchMethod.ADAPTIVE_ASHA, mode=mode, **values)


@pytest.mark.parametrize(
    ("rungs", "longest", "divisor", "expected"),
    [
        (3, 9, 3.0, (1, 3, 9)),
        (4, 10, 2.0, (1, 2, 5, 10)),
        (1, 9, 3.0, (9,)),
        (3, 900, 3.0, (100, 300, 900)),
    ],
)
def test_the_lengths_of_rungs(rungs: int, longest: int, divisor: float, expected: tuple[int, ...]) -> None:
    assert rung_lengths(rungs, divisor, longest) == expected


@pytest.mark.parametrize(
    ("metrics", "metric", "place"),
    [([0.0, 1.5, 2.1], 1.2, 1), ([0.0, 1.5, 2.0], 3.0, 3), ([-3.0, -2.0, -1.0], -3.4, 0), ([], 1.2, 0)],
)
def test_the_place_of_a_metric(metrics: list[float], metric: float, place: int) -> None:
    ranking = Ranking()
    for trial, each in enumerate(metrics):
        ranking.insert(each, trial, before_equals=True)
    assert ranking.insert(metric, 9, before_equals=True) == place
    assert (ranking[place], len(ranking)) == (9, len(metrics) + 1)


@pytest.mark.parametrize(
    ("metrics", "stops"),
    [([0.5], False), ([0.5, 0.4], False), ([0.5, 0.6], True)],
    ids=["the first", "a better one", "a worse one"],
)
def test_whether_a_validation_stops_its_trial(metrics: list[float], *, stops: bool) -> None:
    method = StoppingHalving(Bracket((1, 3, 9), max_trials=2, concurrent=2), 3.0)
    for trial in (1, 2):
        method.begun(trial)
    found = [method.validation(at + 1, 1, metric) for at, metric in enumerate(metrics)]
    assert (Stop(len(metrics)) in found[-1]) is stops
    assert not any(found[:-1])


@pytest.mark.parametrize(
    ("trials", "divisor", "rungs", "expected"),
    [
        (20, 3.0, (3, 2, 1), (12, 5, 3)),
        (50, 3.0, (4, 3), (35, 15)),
        (50, 4.0, (3, 2), (37, 13)),
        (100, 4.0, (4, 3, 2), (70, 22, 8)),
    ],
)
def test_the_trials_of_brackets(
    trials: int, divisor: float, rungs: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert split_trials(trials, divisor, rungs) == expected


@pytest.mark.parametrize(
    ("most", "divisor", "shares", "expected"),
    [(0, 3.0, (9, 3, 1), (3, 3, 3)), (11, 3.0, (9, 3, 1), (4, 4, 3)), (0, 4.0, (40, 10), (10, 10))],
)
def test_the_concurrent_trials_of_brackets(
    most: int, divisor: float, shares: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert split_concurrent(most, divisor, shares) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            _adaptive(SearchMode.STANDARD, max_time=100, divisor=4.0, max_concurrent_trials=2),
            [(2, 7, 1), (1, 3, 1)],
        ),
        (
            _adaptive(SearchMode.CONSERVATIVE, max_time=1000, max_concurrent_trials=5),
            [(3, 7, 2), (2, 2, 2), (1, 1, 1)],
        ),
    ],
)
def test_the_brackets_of_a_search(spec: SearchSpec, expected: list[tuple[int, int, int]]) -> None:
    made = brackets_of(spec)
    assert [(len(each.lengths), each.max_trials, each.concurrent) for each in made] == expected


def test_the_brackets_of_each_mode() -> None:
    assert bracket_rungs(_adaptive(SearchMode.AGGRESSIVE)) == (3,)
    assert bracket_rungs(_adaptive(SearchMode.STANDARD)) == (3, 2)
    assert bracket_rungs(_adaptive(SearchMode.CONSERVATIVE)) == (3, 2, 1)
    assert bracket_rungs(_adaptive(SearchMode.STANDARD, bracket_rungs=(1, 3))) == (3, 1)


def test_concurrent_trials_are_split_over_brackets() -> None:
    many = brackets_of(_adaptive(SearchMode.STANDARD, max_trials=64, max_concurrent_trials=7))
    assert [bracket.concurrent for bracket in many] == [3, 2, 2]


def test_a_search_that_ends_nothing_early_has_one_line() -> None:
    assert preview(SearchSpec(method=SearchMethod.RANDOM, max_trials=7)) == (PreviewLine(7, None),)


def test_the_preview_of_an_adaptive_search() -> None:
    assert preview(_adaptive(SearchMode.STANDARD, max_concurrent_trials=5)) == (
        PreviewLine(5, 100),
        PreviewLine(3, 300),
        PreviewLine(2, 900),
    )
