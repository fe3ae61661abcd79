"""Histories in which nodes are lost again and again, also several at once, and come back."""

from __future__ import annotations

from collections import Counter

import pytest

from examples import seeds
from seeded import History

SEEDS = 60


@pytest.mark.seeded
def test_what_ran_on_lost_nodes_goes_on_and_nothing_is_lost_or_runs_twice() -> None:
    """All promises hold as with nodes that stay; `tools/histories.py --kind frail` plays more of them."""
    seen = Counter[str]()
    played = seeds(SEEDS)
    for seed in played:
        history = History(seed, frail=True)
        try:
            history.run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error
        seen += history.node_events
        seen["attempts lost"] += sum(run.faults for run in history.ended.values())
    assert seen["losses of several nodes at once"] > len(played)
    assert seen["nodes back"] > len(played)
    assert seen["attempts lost"] > len(played) / 2
