"""Ended runs are removed as a whole, by command and by age; never what a live run needs."""

from __future__ import annotations

import pytest

from served import HELLO, Served
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Forbidden, NotFound, Refused, Unavailable

DAY_S = 86_400.0


def ended_run(plane: Served, file: str = HELLO) -> str:
    """A run that has ended by itself."""
    run_id = plane.client().submit(file).id
    for seconds in (0, 0, 60):
        plane.advance(seconds)
    assert plane.client().run(run_id).state == "ended"
    return run_id


def test_a_removed_run_is_gone_with_its_files(plane: Served) -> None:
    client, run_id = plane.client(), ended_run(plane)
    assert client.remove(run_id).id == run_id
    assert plane.engine.removed == [run_id]
    assert client.runs(everything=True).runs == []
    with pytest.raises(NotFound):
        client.run(run_id)


def test_a_removed_run_stays_in_the_usage(plane: Served) -> None:
    """No user can lower what was accounted."""
    client, run_id = plane.client(), ended_run(plane, HELLO + "slots: 1\n")
    before = client.usage()
    assert [(used.runs, used.slot_s > 0) for used in before] == [(1, True)]
    client.remove(run_id)
    assert client.usage() == before


def test_a_live_run_is_refused_with_how_to_stop_it(plane: Served) -> None:
    run_id = plane.client().submit(HELLO).id
    with pytest.raises(Refused, match="only a run that has ended can be removed") as refusal:
        plane.client().remove(run_id)
    assert refusal.value.hint == f"tarmac stop --wait {run_id}"


def test_another_users_run_stays(plane: Served) -> None:
    run_id = ended_run(plane)
    with pytest.raises(Forbidden):
        plane.remover().remove(Actor(user="bob", roles=frozenset({ActorRole.MEMBER})), run_id)
    assert plane.client().run(run_id).id == run_id


@pytest.mark.parametrize("error", [Unavailable("no route to host"), OSError(13, "Permission denied", "/x")])
def test_the_record_stays_where_files_cannot_be_removed_now(plane: Served, error: Exception) -> None:
    client, run_id = plane.client(), ended_run(plane)
    plane.engine.removing = error
    with pytest.raises(Unavailable):
        client.remove(run_id)
    plane.engine.removing = None
    client.remove(run_id)
    assert plane.engine.removed == [run_id]


def test_old_runs_are_removed_by_age(plane: Served) -> None:
    old = ended_run(plane)
    plane.clock.advance(10 * DAY_S)
    young, live = ended_run(plane), plane.client().submit(HELLO).id
    plane.remover(keep_days=None).tidy()
    plane.remover(keep_days=11.0).tidy()
    assert plane.engine.removed == []
    plane.remover(keep_days=9.0).tidy()
    assert plane.engine.removed == [old]
    assert [run.id for run in plane.client().runs(everything=True).runs] == [live, young]


def test_one_that_cannot_be_removed_does_not_keep_others(plane: Served) -> None:
    runs = [ended_run(plane), ended_run(plane)]
    plane.clock.advance(10 * DAY_S)
    plane.engine.removing = Unavailable("no route to host")
    plane.remover(keep_days=1.0).tidy()
    plane.engine.removing = None
    plane.remover(keep_days=1.0).tidy()
    assert sorted(plane.engine.removed) == runs
