"""Brackets, rungs and previews of asha searches: published values (D10)."""

import pytest

from tarmac.model.search import SearchMethod, SearchMode, SearchSpec
from tarmac.search import PreviewLine, preview
from tarmac.search.rungs import (
    bracket_rungs,
    brackets_of,
    cumulative_lengths,
    rung_lengths,
    split_trials,
)


@pytest.mark.parametrize(
    ("trials", "divisor", "rungs", "expected"),
    [
        (20, 3.0, (3, 2, 1), (12, 5, 3)),
        (50, 3.0, (4, 3), (35, 15)),
        (50, 4.0, (3, 2), (37, 13)),
        (100, 4.0, (4, 3, 2), (70, 22, 8)),
    ],
)
def test_trials_are_split_over_brackets(
    trials: int, divisor: float, rungs: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert split_trials(trials, divisor, rungs) == expected


def test_the_lengths_of_rungs() -> None:
    assert rung_lengths(3, 3.0, 900) == (100, 300, 900)
    assert rung_lengths(4, 2.0, 10) == (1, 2, 5, 10)
    assert cumulative_lengths(3, 3.0, 900) == (100, 400, 1300)


def _adaptive(mode: SearchMode, **more: object) -> SearchSpec:
    values = {"max_time": 900, "divisor": 3.0, "max_trials": 10} | more
    return SearchSpec(method=SearchMethod.ADAPTIVE_ASHA, mode=mode, **values)  # type: ignore[arg-type]


def test_the_brackets_of_each_mode() -> None:
    assert bracket_rungs(_adaptive(SearchMode.AGGRESSIVE)) == (3,)
    assert bracket_rungs(_adaptive(SearchMode.STANDARD)) == (3, 2)
    assert bracket_rungs(_adaptive(SearchMode.CONSERVATIVE)) == (3, 2, 1)
    assert bracket_rungs(_adaptive(SearchMode.STANDARD, bracket_rungs=(1, 3))) == (3, 1)


def test_concurrent_trials_are_split_over_brackets() -> None:
    many = brackets_of(_adaptive(SearchMode.STANDARD, max_trials=64, max_concurrent_trials=7))
    assert [bracket.concurrent for bracket in many] == [3, 2, 2]


def test_the_preview_of_a_published_search() -> None:
    assert preview(_adaptive(SearchMode.STANDARD)) == (
        PreviewLine(5, 100),
        PreviewLine(3, 300),
        PreviewLine(2, 900),
    )


def test_a_search_that_ends_nothing_early_has_one_line() -> None:
    assert preview(SearchSpec(method=SearchMethod.RANDOM, max_trials=7)) == (PreviewLine(7, None),)
