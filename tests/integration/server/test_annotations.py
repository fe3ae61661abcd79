"""Notes and labels of runs over HTTP: who may change them, and what is refused."""

from __future__ import annotations

import pytest

from served import HELLO, OWNER, Served
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Forbidden, InvalidInput, NotFound


def test_labels_are_set_and_removed_also_after_the_end(plane: Served) -> None:
    client = plane.client()
    run = client.submit("labels: {draft: '1'}\n" + HELLO).id
    client.stop(run)
    assert client.label(run, {"team": "vision", "draft": None}).labels == {"team": "vision"}
    assert client.label(run, {"team": "vision"}).labels == {"team": "vision"}
    assert [(each.actor, each.kind, each.text) for each in client.annotations(run)] == [
        (OWNER, "label", "team=vision draft-")
    ]
    assert [each.id for each in client.runs(labels={"team": "vision"}).runs] == [run]


def test_what_cannot_be_a_label_is_refused_and_nothing_is_changed(plane: Served) -> None:
    client = plane.client()
    run = client.submit("labels: {team: x}\n" + HELLO).id
    with pytest.raises(NotFound, match="no label 'taem'") as missing:
        client.label(run, {"taem": None, "new": "n"})
    assert missing.value.hint == "did you mean team?"
    with pytest.raises(InvalidInput):
        client.label(run, {"a b": "c"})
    assert client.run(run).labels == {"team": "x"}
    assert client.annotations(run) == []


def test_labels_of_many_runs_are_changed_with_a_result_for_each(plane: Served) -> None:
    client = plane.client()
    first = client.submit("labels: {draft: '1'}\n" + HELLO).id
    second = client.submit(HELLO).id
    changes: dict[str, str | None] = {"team": "vision", "draft": None}
    annotations = plane.service().annotations
    owner = Actor(user=OWNER, roles=frozenset({ActorRole.MEMBER}))
    found = annotations.label_each(owner, [first, "nothing", second], changes)
    assert isinstance(found[1], NotFound)
    assert [client.run(run).labels for run in (first, second)] == [{"team": "vision"}] * 2
    assert len(annotations.label_each(owner, [first, second], changes)) == 2
    assert [len(client.annotations(run)) for run in (first, second)] == [1, 1]
    bob = Actor(user="bob", roles=frozenset({ActorRole.MEMBER}))
    assert [type(each) for each in annotations.label_each(bob, [first, second], changes)] == [Forbidden] * 2
    refused = annotations.label_each(owner, [first], {"a b": "c"})
    assert isinstance(refused[0], InvalidInput)


def test_a_note_that_is_sent_twice_is_one(plane: Served) -> None:
    client = plane.client()
    run = client.submit(HELLO).id
    assert [each.text for each in client.note(run, " lr too high ")] == ["lr too high"]
    assert len(client.note(run, "lr too high")) == 1
    plane.clock.advance(61)
    assert len(client.note(run, "lr too high")) == 2
    for text in (" ", "x" * 4_001):
        with pytest.raises(InvalidInput, match="1 to 4,000 characters"):
            client.note(run, text)


def test_another_users_run_is_left_alone(plane: Served) -> None:
    run = plane.client().submit(HELLO).id
    bob = Actor(user="bob", roles=frozenset({ActorRole.MEMBER}))
    annotations = plane.service().annotations
    with pytest.raises(Forbidden):
        annotations.note(bob, run, "mine")
    with pytest.raises(Forbidden):
        annotations.label(bob, run, {"a": "b"})
    assert annotations.of(bob, run) == []
