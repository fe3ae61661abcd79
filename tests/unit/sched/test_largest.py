"""What a refusal offers instead: the largest request of the kind that would fit."""

from __future__ import annotations

import pytest

from facts import NOW, candidate, gang, nodes, replicas, snapshot
from tarmac.sched import Demand, Refusal, explain


@pytest.mark.parametrize(
    ("count", "slots", "demand", "largest"),
    [
        (4, 8, gang(99), "slots: 32"),
        (4, 8, gang(33), "slots: 32"),
        (3, 5, gang(99), "slots: 15"),
        (3, 8, gang(23), "the same with `uneven: true`, split unequally; or slots: 21"),
        (1, 8, gang(9), "slots: 8"),
        (2, 8, replicas(5, 4), "4 of the 5 replicas"),
        (2, 8, replicas(1, 9), "replicas of 8 slots each"),
    ],
)
def test_a_refusal_offers_the_largest_that_would_fit(
    count: int, slots: int, demand: Demand, largest: str
) -> None:
    """The refusal at submission says the largest request that would fit, also where splits must be equal."""
    facts = snapshot(nodes(count, slots), [candidate("r1", demand)])
    answer = explain(facts, "r1", NOW)
    assert isinstance(answer, Refusal)
    assert answer.largest == largest
