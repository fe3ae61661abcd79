"""Subscriptions of people to their own runs, over HTTP: who may see and set them, and for whom (N15, N18)."""

from __future__ import annotations

from typing import Any

import pytest

from served import Served
from tarmac.client import Client
from tarmac.control.reconcilers.notify import NotifyPass
from tarmac.dialects.native.notify import MOST_SUBSCRIPTIONS
from tarmac.model.actor import Action, ActorRole
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused
from tarmac.model.notification import ENDED, Channel, Occasion
from tarmac.model.people.account import AccountSettings

URL = "https://192.0.2.7/services/a-secret-path"


@pytest.fixture
def bob(plane: Served) -> Client:
    """A member of a server with accounts."""
    owner = plane.client()
    for name, role in (("ada", ActorRole.ADMIN), ("bob", ActorRole.MEMBER), ("eve", ActorRole.VIEWER)):
        owner.set_user(name, AccountSettings(role=role))
    return plane.remote_client(owner.add_token("test", user="bob").text)


def client_of(plane: Served, user: str, *scopes: Action) -> Client:
    return plane.remote_client(plane.client().add_token("test", user=user, scopes=scopes or None).text)


def test_n18_a_person_sets_replaces_and_ends_subscriptions(bob: Client) -> None:
    assert bob.subscriptions() == []
    (first,) = bob.subscribe(URL)
    assert (first.receiver, first.on, first.waiting_s) == ("webhook at 192.0.2.7", ENDED, 3600.0)
    on = (Occasion.FAILED, Occasion.IDLE, Occasion.FAILED)
    (second,) = bob.subscribe(URL, on=on, waiting_s=60.0)
    assert (second.on, second.waiting_s) == ((*on[:2], Occasion.WAITING), 60.0), "the time adds the event"
    assert len(bob.subscribe(URL, channel=Channel.SLACK)) == 2, "another form is another receiver"
    assert [each.receiver for each in bob.subscribe(first.receiver, on=())] == ["slack at 192.0.2.7"]
    with pytest.raises(NotFound, match="you have no subscription 'webhook at"):
        bob.subscribe(first.receiver, on=())
    assert bob.subscribe(URL, on=()) == []
    bob.subscribe(URL)
    assert bob.subscribe(None, on=()) == bob.subscribe(None, on=()) == []


def test_n15_no_answer_has_the_path_of_a_url_and_only_an_admin_sees_those_of_others(
    plane: Served, bob: Client
) -> None:
    (own,) = bob.subscribe(URL)
    ada, eve = client_of(plane, "ada"), client_of(plane, "eve")
    assert ada.subscriptions(user="bob") == [own]
    assert "secret-path" not in repr(own)
    assert (ada.subscriptions(), eve.subscriptions()) == ([], [])
    with pytest.raises(Forbidden):
        eve.subscriptions(user="bob")
    with pytest.raises(Forbidden):
        client_of(plane, "bob", Action.READ).subscribe(URL)
    assert "secret-path" not in repr(plane.client().audit())


def test_n15_the_subscriptions_of_a_removed_account_end(plane: Served, bob: Client) -> None:
    bob.subscribe(URL)
    run = bob.submit("command: echo\nname: hello\n")
    plane.turn()
    plane.client().remove_user("bob")
    NotifyPass(plane.plane.sender)(plane.plane.control)
    plane.advance(60.0)
    assert plane.client().run(run.id).outcome == "completed"
    assert plane.client().notifications(run.id) == []
    plane.client().set_user("bob")
    assert client_of(plane, "bob").subscriptions() == []


def test_n18_a_subscription_is_for_ones_own_runs_alone(plane: Served, bob: Client) -> None:
    bob.subscribe(URL)
    runs = [each.submit("command: echo\n") for each in (bob, client_of(plane, "ada"))]
    plane.turn()
    plane.advance(60.0)
    found = [[message.occasion for message in bob.notifications(run.id)] for run in runs]
    assert found == [[Occasion.COMPLETED], []]


def test_n18_a_secret_is_the_persons_own_or_one_for_everyone(plane: Served, bob: Client) -> None:
    """A member cannot send through the secret of another."""
    ada = client_of(plane, "ada")
    for client, name in ((bob, "hook"), (ada, "adas_hook")):
        client.set_secret(name, URL)
    (own,) = bob.subscribe("${{ secrets.hook }}", channel=Channel.SLACK)
    assert own.receiver == "slack (secret hook)"
    (stored,) = plane.store.notifications.subscriptions()["bob"]
    assert (stored.receiver.address, stored.receiver.scope) == ("hook", "user:bob")
    with pytest.raises(InvalidInput, match="there is no secret 'adas_hook'"):
        bob.subscribe("${{ secrets.adas_hook }}", channel=Channel.SLACK)
    with pytest.raises(InvalidInput, match="a secret holds the URL"):
        bob.subscribe("${{ secrets.hook }}")
    assert bob.subscribe("${{ secrets.hook }}", on=()) == []


@pytest.mark.parametrize(
    ("to", "more", "problem"),
    [
        ("ann@lab.example", {}, "this server has no mail server"),
        ("http://127.0.0.1:9/hook", {}, "notifications.private_addresses forbids it"),
        ("http://169.254.169.254/latest", {}, "notifications.private_addresses forbids it"),
        ("file:///etc/passwd", {}, "an address of mail, an http"),
        ("https://a b/", {}, "an address of mail, an http"),
        (None, {}, "an address of mail, an http"),
        (URL, {"channel": Channel.EMAIL}, "no address for email"),
        (URL, {"waiting_s": -1.0}, "waiting_s"),
        (URL, {"on": ("soon",)}, "on"),
    ],
)
def test_n18_a_receiver_that_cannot_or_may_not_be_is_refused(
    bob: Client, to: str | None, more: dict[str, Any], problem: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        bob.subscribe(to, **more)
    assert problem in str(refused.value)
    assert bob.subscriptions() == []


def test_n18_a_person_has_so_many_subscriptions_at_most(bob: Client) -> None:
    for number in range(MOST_SUBSCRIPTIONS):
        bob.subscribe(f"{URL}/{number}")
    with pytest.raises(Refused, match="the most"):
        bob.subscribe(URL)
    bob.subscribe(f"{URL}/0", on=(Occasion.IDLE,))
