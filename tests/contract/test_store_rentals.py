"""The record of providers, shapes and rentals: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from tarmac.model.actor import HomeIdentity
from tarmac.model.burst.provider import ProviderRecord, RentedThing, ThingState
from tarmac.model.burst.rentals import Rental, RentalEnd, RentalState, RentalStep
from tarmac.model.burst.shapes import Shape, Stock
from tarmac.model.codec import replace
from tarmac.model.errors import LeaseLost
from tarmac.model.lifecycle import IllegalStep
from tarmac.model.ports import Store

AWS = ProviderRecord(name="aws", kind="ec2", settings={"region": "a"}, owner="o1", added_by="ada")
SHAPE = Shape(id="aws.a", provider="aws", region="a", machine="m.large", slots=2, rate=1.5)
REQUESTED = Rental(
    id="r1-1", run_id="r1", user="ada", project="vision", server="local", number=1, requested_at=5.0
)


def _put(store: Store, *rentals: Rental) -> list[bool]:
    return store.rentals.apply([RentalStep(before=None, after=each) for each in rentals])


def _next(before: Rental, state: RentalState, **changes: object) -> RentalStep:
    return RentalStep(before=before, after=replace(before, state=state, seq=before.seq + 1, **changes))


def test_providers_and_shapes_are_kept_by_name(store: Store) -> None:
    rentals = store.rentals
    own = replace(AWS, name="Own", kind="machines", owner="o2")
    for each in (AWS, own, replace(AWS, owner="o3")):
        rentals.put_provider(each)
    assert rentals.providers() == [own, replace(AWS, owner="o3")]
    other = replace(SHAPE, id="own.b", provider="Own")
    rentals.put_shapes([SHAPE, other])
    assert rentals.shapes() == [SHAPE, other]
    newer = replace(SHAPE, id="aws.b", rate=2.0)
    rentals.put_shapes([newer], replacing="aws")
    assert rentals.shapes() == [newer, other]
    assert (rentals.remove_shape("aws.b"), rentals.remove_shape("aws.b")) == (True, False)
    rentals.put_shapes([], replacing="Own")
    assert rentals.shapes() == []


def test_only_the_newest_finding_about_a_shape_is_kept(store: Store) -> None:
    for each in (
        Stock(shape="aws.a", tried_at=1.0, text="none"),
        Stock(shape="aws.a", tried_at=2.0, machines=3),
    ):
        store.rentals.put_stock(each)
    assert store.rentals.stock() == [each]


def test_a_change_is_applied_only_to_the_rental_as_it_was(store: Store) -> None:
    assert _put(store, REQUESTED) == [True]
    assert _put(store, REQUESTED, replace(REQUESTED, id="r1-x")) == [False, False], (
        "one rental for each number"
    )
    creating = _next(REQUESTED, RentalState.CREATING, shape=SHAPE, machines=2, created_at=6.0)
    lost = _next(REQUESTED, RentalState.ENDED, end=RentalEnd.RUN_ENDED)
    assert store.rentals.apply([creating, lost]) == [True, False]
    things = (RentedThing(id="i-1", state=ThingState.RUNNING, owner="o1", request="r1-1", address="h"),)
    starting = _next(creating.after, RentalState.STARTING, things=things)
    assert store.rentals.apply([starting]) == [True]
    assert store.rentals.open_rentals() == [starting.after]
    assert starting.after.rate == 3.0
    with pytest.raises(IllegalStep):
        store.rentals.apply([_next(starting.after, RentalState.REQUESTED)])
    with pytest.raises(IllegalStep):
        store.rentals.apply([RentalStep(before=starting.after, after=starting.after)])


def test_rentals_are_found_by_run_and_time_and_open_ones_always(store: Store) -> None:
    late = replace(REQUESTED, id="r0-1", run_id="r0", requested_at=9.0)
    old = replace(REQUESTED, id="r2-1", run_id="r2", requested_at=1.0)
    _put(store, late, REQUESTED, old)
    store.rentals.apply([_next(REQUESTED, RentalState.ENDED, end=RentalEnd.RUN_ENDED)])
    assert [each.id for each in store.rentals.open_rentals()] == ["r0-1", "r2-1"]
    assert [each.id for each in store.rentals.rentals()] == ["r2-1", "r1-1", "r0-1"]
    assert [each.id for each in store.rentals.rentals(since=8.0)] == ["r2-1", "r0-1"]
    assert [each.id for each in store.rentals.rentals(run_ids=["r1", "r0"])] == ["r1-1", "r0-1"]
    assert store.rentals.rentals(run_ids=["r1"], since=6.0) == []


def test_a_provider_stays_while_one_of_its_shapes_is_rented(store: Store) -> None:
    """The key to its account is needed until the last machine is gone."""
    store.rentals.put_provider(AWS)
    store.rentals.put_shapes([SHAPE])
    _put(store, REQUESTED)
    creating = _next(REQUESTED, RentalState.CREATING, shape=SHAPE, machines=1, created_at=6.0)
    store.rentals.apply([creating])
    assert not store.rentals.remove_provider("aws")
    store.rentals.apply([_next(creating.after, RentalState.ENDED, end=RentalEnd.NO_CAPACITY)])
    assert store.rentals.remove_provider("aws")
    assert (store.rentals.providers(), store.rentals.shapes()) == ([], [])


def test_a_server_that_was_replaced_changes_no_rental(store: Store) -> None:
    home = HomeIdentity(id="h", machine="m", hostname="n", path="/p")
    lease = store.take_lease("local", home, after=0, now=1.0)
    assert lease is not None
    store.take_lease("local", home, after=1, now=2.0)
    with pytest.raises(LeaseLost):
        store.rentals.apply([RentalStep(before=None, after=REQUESTED)], lease=lease)
    assert store.rentals.open_rentals() == []
