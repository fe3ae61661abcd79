"""Messages about runs: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from histories import new_run, step
from tarmac.model.actor import Lease
from tarmac.model.codec import replace
from tarmac.model.errors import LeaseLost
from tarmac.model.lifecycle import RunEvent
from tarmac.model.notification import Channel, Notification, Occasion, Receiver, Subscription
from tarmac.model.ports import Store

HOOK = Receiver(channel=Channel.WEBHOOK, address="https://hooks.example.org/é")


def message(run_id: str, key: str, *, due_at: float = 10.0, server: str = "local") -> Notification:
    return Notification(
        run_id=run_id,
        key=key,
        server=server,
        occasion=Occasion.FAILED,
        receiver=HOOK,
        about={"name": "hello", "cause": None, "slots": 2},
        at=due_at,
        due_at=due_at,
    )


def test_a_message_is_kept_once_and_found_when_it_is_due(store: Store) -> None:
    store.create_runs([new_run("r1")])
    messages = store.notifications
    messages.add([message("r1", "a", due_at=20.0), message("r1", "b"), message("r1", "c", server="other")])
    messages.add([message("r1", "a", due_at=5.0)])
    messages.add([])
    assert [each.key for each in messages.due("local", now=30.0, limit=10)] == ["b", "a"]
    assert [each.key for each in messages.due("local", now=30.0, limit=1)] == ["b"]
    assert [each.key for each in messages.due("local", now=10.0, limit=10)] == ["b"]
    assert (messages.next_due_at("local"), messages.next_due_at("nobody")) == (10.0, None)
    found = messages.of_run("r1")
    assert [each.key for each in found] == ["a", "b", "c"]
    assert replace(found[1], id=0) == message("r1", "b")
    assert messages.of_run("r\0") == []


def test_what_became_of_a_message_is_kept(store: Store) -> None:
    store.create_runs([new_run("r1")])
    store.notifications.add([message("r1", "a"), message("r1", "b")])
    first, second = store.notifications.of_run("r1")
    sent = replace(first, tries=1, due_at=None, sent_at=12.5)
    later = replace(second, tries=3, due_at=60.0, error="nobody is there")
    store.notifications.record([sent, later, replace(first, id=999, run_id="gone")])
    assert store.notifications.of_run("r1") == [sent, later]
    assert store.notifications.next_due_at("local") == 60.0


def test_a_message_comes_with_the_step_that_it_tells_of_or_not_at_all(store: Store) -> None:
    run = new_run("r1").run
    store.create_runs([new_run("r1")])
    ended = replace(step(run, RunEvent.STOP_REQUESTED), notifications=(message("r1", "a"),))
    assert store.apply([ended]) == [True]
    stale = replace(step(run, RunEvent.PAUSE_REQUESTED), notifications=(message("r1", "b"),))
    assert store.apply([stale]) == [False]
    assert [each.key for each in store.notifications.of_run("r1")] == ["a"]


def test_messages_go_with_their_run(store: Store) -> None:
    run = new_run("r1").run
    store.create_runs([new_run("r1")])
    store.apply([replace(step(run, RunEvent.STOP_REQUESTED), notifications=(message("r1", "a"),))])
    assert store.remove_runs(["r1"]) == {"r1"}
    assert store.notifications.of_run("r1") == []
    assert store.notifications.next_due_at("local") is None


def test_a_server_that_was_replaced_records_nothing(store: Store) -> None:
    store.create_runs([new_run("r1")])
    store.notifications.add([message("r1", "a")])
    [kept] = store.notifications.of_run("r1")
    with pytest.raises(LeaseLost):
        store.notifications.record(
            [replace(kept, sent_at=1.0)], lease=Lease(cluster="local", home="nobody", token=7)
        )
    assert store.notifications.of_run("r1") == [kept]


def test_n18_the_subscriptions_of_a_person_are_replaced_as_a_whole(store: Store) -> None:
    messages = store.notifications
    assert messages.subscriptions() == {}
    ended, failed = Subscription(receiver=HOOK), Subscription(receiver=HOOK, on=(Occasion.FAILED,))
    other = Subscription(receiver=replace(HOOK, address="hook", secret=True, scope="user:ada"), waiting_s=9.5)
    for user, new in (("ada", [ended]), ("bob", [ended]), ("ada", [other, failed])):
        messages.subscribe(user, new)
    assert messages.subscriptions() == {"ada": (other, failed), "bob": (ended,)}
    messages.subscribe("bob", [])
    assert messages.subscriptions().get("bob", ()) == ()
