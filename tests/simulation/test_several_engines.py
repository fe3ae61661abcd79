"""Histories of two clusters, each with an engine of its own, of which one hangs, fails and comes back."""

from __future__ import annotations

import pytest

from examples import seeds
from seeded import History

SEEDS_PER_CASE = 30
CASES = 10


@pytest.mark.seeded
@pytest.mark.parametrize("case", range(CASES))
def test_an_engine_that_hangs_or_fails_holds_up_no_run_of_another(case: int) -> None:
    """All promises hold as with one engine; and while one hangs for good, the runs of the other all end."""
    waiting = 0
    played = seeds(SEEDS_PER_CASE, case=case)
    for seed in played:
        history = History(seed, far=True)
        try:
            history.run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        waiting += history.left_waiting
    assert waiting > len(played) / 2, "hardly anything waited for the engine that hung"
