"""The shapes that a run may rent, the next try, and the charges of a rental: pure decisions."""

from __future__ import annotations

from itertools import pairwise

import pytest

from burst_labs import GPU, SHAPES, shape
from simulated import spec
from tarmac.control.burst.charging import PERIOD_S, Spending, charges
from tarmac.control.burst.choosing import accelerators, machines_for, next_offer, offers
from tarmac.control.burst.deciding import AGAIN_S, LATE_S, after_look, unplaced
from tarmac.model.burst.provider import RentedThing, ThingState
from tarmac.model.burst.rentals import Rental, RentalEnd, RentalState
from tarmac.model.burst.shapes import BurstRequest
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunState
from tarmac.model.people.limits import CreditAccount, Limit
from tarmac.model.run import Retry, Run

EIGHT = spec(replicas=2, each=4, slot_type=GPU)
MACHINE = RentedThing(id="i1", state=ThingState.RUNNING, owner="o", request="r1-1", address="a", since=10.0)
REQUESTED = Rental(
    id="r1-1", run_id="r1", user="ada", project="p", server="local", number=1, requested_at=0.0
)
CREATING = replace(REQUESTED, state=RentalState.CREATING, shape=SHAPES[1], machines=1, created_at=10.0)
RELEASING = replace(CREATING, state=RentalState.RELEASING, things=(MACHINE,), end=RentalEnd.RUN_ENDED)


def test_the_request_orders_the_shapes_and_without_known_ids_the_rate_does() -> None:
    names = [
        each.shape.id for each in offers(BurstRequest(shapes=("dear", "unknown", "cheap")), EIGHT, SHAPES)
    ]
    assert names == ["dear", "cheap"]
    for request in (None, BurstRequest(shapes=("unknown",))):
        assert [each.shape.id for each in offers(request, EIGHT, SHAPES)] == ["cheap", "middle", "dear"]


def test_the_fewest_machines_that_hold_the_run_are_rented() -> None:
    three = spec(replicas=3, each=3, slot_type=GPU)
    assert machines_for(three, shape("a", 1.0, slots=4)) == 3
    assert machines_for(three, shape("b", 1.0, slots=8)) == 2
    assert machines_for(three, shape("c", 1.0, slots=2)) == 0
    assert machines_for(EIGHT, replace(SHAPES[0], slot_type="H100")) == 0
    assert (accelerators(three), accelerators(spec(replicas=2, each=4, slot_type="cpu"))) == (9, 0)


def test_what_is_refused_says_why() -> None:
    found = offers(BurstRequest(below=5.0), EIGHT, [*SHAPES, shape("small", 0.1, slots=2)], largest=8)
    assert [each.refused for each in found] == [
        "",
        "",
        "8 an hour is more than the run's limit of 5",
        "no number of these machines (2 x A100) holds the run",
    ]
    (alone,) = offers(None, replace(EIGHT, time_limit_s=7200.0), SHAPES[:1], largest=7, ran_s=3600.0)
    assert (alone.cost, alone.rate) == (2.0, 2.0)
    assert alone.refused == "2 machines have 8 GPUs, and 7 are the most for a run"


def test_each_shape_is_tried_once_before_a_pause_and_from_the_first_again() -> None:
    found, past, at = offers(None, EIGHT, SHAPES), list[Rental](), 100.0
    begun = list[float]()
    for number in range(9):
        offer, at = next_offer(found, past, at)
        assert offer is not None
        begun.append(at)
        code = RentalEnd.NO_CAPACITY
        past.append(
            replace(
                REQUESTED, number=number, state=RentalState.ENDED, shape=offer.shape, end=code, ended_at=at
            )
        )
    assert [each.shape and each.shape.id for each in past] == ["cheap", "middle", "dear"] * 3
    assert [later - sooner for sooner, later in pairwise(begun)] == [0, 0, 60, 60, 60, 120, 120, 120]
    success = replace(past[-1], ready_at=at, end=RentalEnd.RECLAIMED)
    offer, _ = next_offer(found, [*past, success], at)
    assert offer is not None
    assert offer.shape.id == "cheap", "a success ends the pauses, and what was taken back comes last"


@pytest.mark.parametrize("listed_s", [LATE_S - 1.0, LATE_S])
def test_a_lost_answer_is_settled_by_two_lists_in_time(listed_s: float) -> None:
    first = after_look(CREATING, [], 10.0 + listed_s)
    assert first.lists == (listed_s >= LATE_S)
    again = after_look(first, [], 10.0 + LATE_S + AGAIN_S - 1.0)
    assert again.state is RentalState.CREATING
    later = after_look(again, [], 10.0 + LATE_S + 2 * AGAIN_S)
    assert (later.state, later.end) == (RentalState.ENDED, RentalEnd.ANSWER_LOST)
    assert after_look(first, [MACHINE], 500.0).state is RentalState.STARTING


def test_machines_on_which_the_run_finds_no_place_failed_to_start() -> None:
    ready = replace(CREATING, state=RentalState.READY, ready_at=100.0)
    run = Run(id="r1", spec=EIGHT, user="ada", state=RunState.QUEUED, seq=2, created_at=0.0, queued_at=400.0)
    assert unplaced(ready, run, None, 1_299.0) is None, "it has been queued for less than 15 minutes"
    end = unplaced(ready, run, None, 1_300.0)
    assert end == (RentalEnd.START_FAILED, "the run found no place on them within 15 minutes")
    resting = replace(run, retry=Retry(at=5_000.0, tries=1))
    assert unplaced(ready, resting, None, 1_300.0) is None, "it waits for its next try"


def test_a_rental_ends_only_once_nothing_of_it_is_listed_twice() -> None:
    assert after_look(RELEASING, [MACHINE], 100.0) is RELEASING
    missing = after_look(RELEASING, [], 100.0)
    assert (missing.state, missing.lists, missing.things[0].gone_at) == (RentalState.RELEASING, 1, 100.0)
    back = after_look(missing, [MACHINE], 130.0)
    assert (back.lists, back.things[0].gone_at) == (0, None)
    assert after_look(missing, [], 100.0 + AGAIN_S).state is RentalState.ENDED
    gone = after_look(RELEASING, [replace(MACHINE, state=ThingState.GONE)], 100.0)
    assert gone.state is RentalState.RELEASING, "its cost is durable first"
    assert after_look(gone, [replace(MACHINE, state=ThingState.GONE)], 101.0).state is RentalState.ENDED


def test_charges_of_periods_add_up_to_the_cost_and_have_one_key_each() -> None:
    account = CreditAccount(account="user:ada", since=0.0, last_at=0.0, granted=9.0, balance=9.0, refill=1)
    ready = replace(RELEASING, state=RentalState.READY)
    entries, count = charges(ready, {"user:ada": account}, 10.0 + 2.5 * PERIOD_S)
    assert (count, [each.key for each in entries]) == (2, ["rental/r1-1/0", "rental/r1-1/1"])
    over = replace(ready, charges=2, things=(replace(MACHINE, gone_at=10.0 + 2.5 * PERIOD_S),))
    rest, count = charges(over, {"user:ada": account}, 5000.0, ends=True)
    assert charges(over, {"user:ada": account}, 6000.0, ends=True)[0][0].amount == rest[0].amount
    assert -sum(each.amount for each in (*entries, *rest)) == pytest.approx(over.cost(5000.0))
    assert sum(each.amount for each in rest) == pytest.approx(-2.0 * 0.5 * PERIOD_S / 3600.0)


def test_an_intent_without_an_answer_counts_for_the_next_one() -> None:
    asked = replace(EIGHT, burst=BurstRequest(budget=1.0))
    run = Run(id="r1", spec=asked, user="ada", state=RunState.QUEUED, seq=1, created_at=0.0)
    (idle,) = Spending([], [], {}, 20.0).purses(run)
    (busy,) = Spending([replace(CREATING, shape=shape("x", 5.0))], [], {}, 20.0).purses(run)
    assert (idle.pays(4.0, 600.0), busy.pays(4.0, 600.0)) == (True, False)


def test_each_purse_counts_the_rentals_of_its_scope_once() -> None:
    limits = [Limit(user="*", rent_budget=10.0), Limit(project="p", rent_budget=100.0)]
    account = CreditAccount(account="project:p", since=0.0, last_at=0.0, granted=9.0, balance=9.0, refill=1)
    own = replace(RELEASING, state=RentalState.READY, shape=replace(shape("x", 5.0), credits=7.0))
    other = replace(own, id="r2-1", run_id="r2", user="bob")
    asked = replace(EIGHT, project="p", burst=BurstRequest(budget=50.0))
    run = Run(id="r1", spec=asked, user="ada", state=RunState.QUEUED, seq=1, created_at=0.0)
    spending = Spending([own, other], limits, {"project:p": account}, 10.0 + 3600.0)
    found = [(each.most, each.used, each.rate) for each in spending.purses(run)]
    assert found == [(50.0, 5.0, 5.0), (10.0, 5.0, 5.0), (100.0, 10.0, 10.0), (9.0, 14.0, 14.0)]
    spending.add(replace(CREATING, id="r1-2", shape=own.shape, created_at=3610.0))
    assert [each.rate for each in spending.purses(run)] == [10.0, 10.0, 15.0, 21.0]
    assert spending.of_run("r2") == 5.0
