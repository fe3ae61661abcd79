"""What was probably meant, and lists that end in "and N more"."""

from __future__ import annotations

from tarmac.model.errors import listed, nearest


def test_the_nearest_word_is_found_whatever_its_case() -> None:
    assert nearest("chek", ["check", "show"]) == "check"
    assert nearest("QUEUE", ["Queue", "Nodes"]) == "Queue"
    assert nearest("gpus", ["slots"], {"gpus": "slots"}) == "slots"
    assert nearest("zzz", ["check", "show"]) is None


def test_a_long_list_says_how_many_more_there_are() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    assert listed([str(number) for number in range(2000)], 1, "; ") == "0; and 1,999 more"
