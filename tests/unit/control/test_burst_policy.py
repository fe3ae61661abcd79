"""The policy of a queue that rents: when a waiting batch run rents, and when its money is used up."""

from __future__ import annotations

import pytest

from tarmac.control.burst.choosing import end_at, rents_now
from tarmac.model.burst.shapes import BurstRequest, Offer, Shape

TWO_HOURS_S = 7200.0


def offer(rate: float, *, refused: str = "", name: str = "a") -> Offer:
    """An offer of two machines for this rate in all."""
    shape = Shape(id=name, provider="p", region="r", machine="m", rate=rate / 2)
    return Offer(shape=shape, machines=2, rate=rate, refused=refused)


def request(**more: object) -> BurstRequest:
    """`wait > 2h`, and more."""
    return BurstRequest(**{"wait_s": TWO_HOURS_S, **more})


def test_a_run_rents_the_first_offer_once_it_has_waited_for_longer_than_its_rule_says() -> None:
    offers = [offer(3.0), offer(2.0)]
    assert rents_now(TWO_HOURS_S, request(), offers) is None
    assert rents_now(TWO_HOURS_S + 0.1, request(), offers) == offers[0]


def test_a_run_without_a_rule_never_rents() -> None:
    """A run of mode burst does not wait for a rule; a batch run without one stays in the queue."""
    assert rents_now(1e9, BurstRequest(budget=50.0), [offer(1.0)]) is None


def test_refused_offers_are_left_out() -> None:
    offers = [offer(1.0, refused="over a limit"), offer(3.0, name="b")]
    assert rents_now(1e5, request(), offers) == offers[1]
    assert rents_now(1e5, request(), offers[:1]) is None
    assert rents_now(1e5, request(), []) is None


@pytest.mark.parametrize(
    ("rate", "left", "limit_s", "expected"),
    [
        (4.0, 50.0, None, 100.0 + 12.5 * 3600.0),
        (4.0, 50.0, 3600.0, 3700.0),
        (4.0, 1.0, 3600.0, 1000.0),
        (4.0, None, 3600.0, 3700.0),
        (4.0, 0.0, None, 100.0),
        (4.0, -1.0, 3600.0, 100.0),
        (0.0, 1.0, None, None),
        (4.0, None, None, None),
    ],
)
def test_a_rental_ends_with_its_budget_or_its_time_limit_whichever_is_first(
    rate: float, left: float | None, limit_s: float | None, expected: float | None
) -> None:
    assert end_at(100.0, rate, left, limit_s) == expected
