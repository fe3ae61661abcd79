"""What every store guarantees of who serves a cluster, and of nodes that a person has drained."""

from __future__ import annotations

import pytest

from histories import new_run, placed
from tarmac.model.actor import HomeIdentity, Lease, ServerRecord
from tarmac.model.cluster import Drain
from tarmac.model.codec import replace
from tarmac.model.errors import LeaseLost
from tarmac.model.ports import Store

ONE = HomeIdentity(id="one", machine="m1", hostname="ada", path="/home/one")
TWO = HomeIdentity(id="two", machine="m2", hostname="bob", path="/srv/two")


def take(store: Store, home: HomeIdentity, *, after: int, cluster: str = "local") -> Lease:
    taken = store.take_lease(cluster, home, after=after, now=100.0)
    assert taken is not None
    return taken


def test_the_first_home_takes_a_cluster_and_is_remembered(store: Store) -> None:
    assert store.servers() == []
    assert take(store, ONE, after=0) == Lease(cluster="local", home="one", token=1)
    assert store.servers() == [ServerRecord(cluster="local", home=ONE, token=1, seen_at=100.0)]


def test_of_two_that_take_it_at_once_one_has_it(store: Store) -> None:
    take(store, ONE, after=0)
    assert store.take_lease("local", TWO, after=0, now=101.0) is None
    assert store.take_lease("local", TWO, after=7, now=101.0) is None
    assert store.take_lease("other", TWO, after=1, now=101.0) is None
    (record,) = store.servers()
    assert record.home == ONE


def test_each_cluster_has_a_server_of_its_own(store: Store) -> None:
    take(store, TWO, after=0, cluster="b")
    take(store, ONE, after=0, cluster="a")
    assert [(record.cluster, record.home) for record in store.servers()] == [("a", ONE), ("b", TWO)]


def test_the_token_grows_with_every_taking(store: Store) -> None:
    take(store, ONE, after=0)
    assert take(store, replace(ONE, path="/moved"), after=1).token == 2
    assert take(store, TWO, after=2).token == 3
    (record,) = store.servers()
    assert (record.home, record.token) == (TWO, 3)


def test_a_sign_of_life_is_noted(store: Store) -> None:
    lease = take(store, ONE, after=0)
    store.renew_lease(lease, now=160.0)
    (record,) = store.servers()
    assert record == ServerRecord(cluster="local", home=ONE, token=1, seen_at=160.0)


@pytest.mark.parametrize("next_home", [ONE, TWO], ids=["same home", "another home"])
def test_who_was_replaced_changes_nothing_any_more(store: Store, next_home: HomeIdentity) -> None:
    (run,) = store.create_runs([new_run("r1")])
    old = take(store, ONE, after=0)
    new = take(store, next_home, after=1)
    for refused in (old, replace(new, cluster="never served"), replace(new, home="three")):
        with pytest.raises(LeaseLost):
            store.apply([placed(run)], lease=refused)
        with pytest.raises(LeaseLost):
            store.apply([], lease=refused)
        with pytest.raises(LeaseLost):
            store.renew_lease(refused, now=200.0)
    assert store.run("r1") == run
    assert store.live_attempts() == []
    assert store.apply([placed(run)], lease=new) == [True]


def test_who_accepted_a_run_and_starts_its_attempt_is_kept(store: Store) -> None:
    item = new_run("r1")
    (run,) = store.create_runs([replace(item, run=replace(item.run, server="b"))])
    step = placed(run)
    assert step.attempt is not None
    store.apply([replace(step, attempt=replace(step.attempt, home="two"))])
    assert [found.server for found in store.live_runs()] == ["b"]
    assert [attempt.home for attempt in store.live_attempts()] == ["two"]


def test_draining_is_remembered_and_idempotent(store: Store) -> None:
    drain = Drain(user="ada", at=5.0, reason="fan \u2013 bay 3")
    assert store.drained_nodes() == {}
    store.set_drained(["node-1"], Drain())
    store.set_drained(["node-1", "node-2"], drain)
    store.set_drained(["node-3"], None)
    store.set_drained([], drain)
    assert store.drained_nodes() == {"node-1": drain, "node-2": drain}
    store.set_drained(["node-1"], None)
    store.set_drained(["node-1", "node-3"], None)
    assert store.drained_nodes() == {"node-2": drain}
