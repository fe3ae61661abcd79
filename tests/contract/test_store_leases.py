"""What every store guarantees of leases and of nodes that a person has drained."""

from __future__ import annotations

from dataclasses import replace

import pytest

from histories import new_run, placed
from tarmac.model.changes import Lease
from tarmac.model.errors import LeaseLost
from tarmac.model.ports import Store


def take(store: Store, owner: str, *, now: float, name: str = "schedule") -> Lease | None:
    return store.acquire_lease(name, owner, ttl_s=10.0, now=now)


def test_a_free_lease_is_taken(store: Store) -> None:
    assert take(store, "a", now=100.0) == Lease(name="schedule", owner="a", token=1, expires_at=110.0)


def test_a_held_lease_is_not_given_to_another(store: Store) -> None:
    take(store, "a", now=100.0)
    assert take(store, "b", now=109.9) is None
    assert take(store, "b", now=100.0, name="reap") is not None, "leases are independent"


def test_renewing_keeps_the_token(store: Store) -> None:
    take(store, "a", now=100.0)
    renewed = take(store, "a", now=105.0)
    assert renewed is not None
    assert (renewed.token, renewed.expires_at) == (1, 115.0)
    assert take(store, "b", now=112.0) is None
    late = take(store, "a", now=300.0)
    assert late is not None
    assert late.token == 1, "expired, but nobody else took it"


def test_an_expired_lease_changes_owner_and_its_token_grows(store: Store) -> None:
    take(store, "a", now=100.0)
    taken = take(store, "b", now=110.0)
    assert taken is not None
    assert taken.token == 2
    back = take(store, "a", now=120.0)
    assert back is not None
    assert back.token == 3


def test_a_released_lease_is_free_at_once_and_its_token_still_grows(store: Store) -> None:
    mine = take(store, "a", now=100.0)
    assert mine is not None
    store.release_lease(mine)
    taken = take(store, "b", now=100.0)
    assert taken is not None
    assert taken.token == 2


def test_releasing_what_another_took_does_nothing(store: Store) -> None:
    old = take(store, "a", now=100.0)
    assert old is not None
    take(store, "b", now=110.0)
    store.release_lease(old)
    store.release_lease(replace(old, owner="b"))
    store.release_lease(replace(old, name="never taken"))
    assert take(store, "c", now=111.0) is None


def test_a_lost_lease_fences_its_old_owner(store: Store) -> None:
    (run,) = store.create_runs([new_run("r1")])
    old = take(store, "a", now=100.0)
    new = take(store, "b", now=110.0)
    assert old is not None
    assert new is not None
    with pytest.raises(LeaseLost):
        store.apply([placed(run)], lease=old)
    with pytest.raises(LeaseLost):
        store.apply([], lease=old)
    with pytest.raises(LeaseLost):
        store.apply([placed(run)], lease=replace(new, name="never taken"))
    assert store.run("r1") == run
    assert store.live_attempts() == []
    assert store.apply([placed(run)], lease=new) == [True]


def test_a_released_lease_fences(store: Store) -> None:
    (run,) = store.create_runs([new_run("r1")])
    mine = take(store, "a", now=100.0)
    assert mine is not None
    store.release_lease(mine)
    with pytest.raises(LeaseLost):
        store.apply([placed(run)], lease=mine)


def test_an_older_token_of_the_same_owner_fences(store: Store) -> None:
    (run,) = store.create_runs([new_run("r1")])
    old = take(store, "a", now=100.0)
    take(store, "b", now=110.0)
    take(store, "a", now=120.0)
    assert old is not None
    with pytest.raises(LeaseLost):
        store.apply([placed(run)], lease=old)


def test_draining_is_remembered_and_idempotent(store: Store) -> None:
    assert store.drained_nodes() == frozenset()
    store.set_drained(["node-1"], True)
    store.set_drained(["node-1", "node-2"], True)
    store.set_drained(["node-3"], False)
    store.set_drained([], True)
    assert store.drained_nodes() == {"node-1", "node-2"}
    store.set_drained(["node-1"], False)
    store.set_drained(["node-1", "node-3"], False)
    assert store.drained_nodes() == {"node-2"}
