"""Indices of arrays as Slurm writes them."""

from __future__ import annotations

import pytest

from tarmac.model.array import MOST_MEMBERS, read_array, split_member


@pytest.mark.parametrize(
    ("text", "values", "at_most"),
    [
        ("0-3", (0, 1, 2, 3), None),
        ("7", (7,), None),
        ("0-9:4%2", (0, 4, 8), 2),
        ("5, 1-2, 2-3", (1, 2, 3, 5), None),
    ],
)
def test_what_is_written_is_these_indices(text: str, values: tuple[int, ...], at_most: int | None) -> None:
    array = read_array(text)
    assert (array.values(), array.at_most) == (values, at_most)
    assert read_array(str(array)) == array


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is no index"),
        ("a-b", "'a-b' is no index"),
        ("3-1", "begins after its end"),
        ("0-9:0", "a step is 1 or more"),
        ("0-9%0", "1 or more"),
        ("0-9%", "1 or more"),
        (f"0-{MOST_MEMBERS}", "more than 10000 members"),
        (f"0-{MOST_MEMBERS - 1},20000", "10001 members"),
        ("0-9999999999:9999999999", "an index 4000000000 at most"),
    ],
)
def test_what_is_wrong_is_told(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_array(text)


def test_a_member_is_named_by_its_index() -> None:
    assert split_member("sweep[3]") == ("sweep", 3)
    assert split_member("sweep") is split_member("sweep[x]") is split_member("[3]") is None
