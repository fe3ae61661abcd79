"""Tables of runs: every filter, any order, any window; the same answers from every store."""

from __future__ import annotations

from typing import Any

import pytest

from histories import new_run, step
from tarmac.model.actor import Sight
from tarmac.model.burst.rentals import Rental, RentalStep
from tarmac.model.lifecycle import Mode, RunEvent
from tarmac.model.ports import Store
from tarmac.model.progress import Outcome
from tarmac.model.spec import Target
from tarmac.model.summary import Project, RunFilter, RunQuery, RunWindow, SavedView

NAMES = ("resnet", "vit", "ResNet-50", "50%_off", "vit", "zebra")


@pytest.fixture
def filled(store: Store) -> Store:
    """Six runs of two users, by time of creation."""
    store.create_runs(
        [
            new_run(
                f"r{number}",
                user="ada" if number % 2 else "bob",
                at=100.0 + number,
                events=(RunEvent.STAGED,) if number < 4 else (),
                name=name,
                project="vision" if number < 3 else "speech",
                mode=Mode.CYCLE if number == 2 else Mode.BATCH,
                labels={"team": "a", "try": str(number)},
            )
            for number, name in enumerate(NAMES)
        ]
    )
    return store


def table(store: Store, sight: Sight | None = None, **window: object) -> list[str]:
    """The ids of the runs in a window, whose total is that of all windows."""
    total, found = store.run_views.window(RunWindow(**window), sight)  # type: ignore[arg-type]
    everything = store.run_views.window(RunWindow(**{**window, "offset": 0, "limit": 100}), sight)[1]  # type: ignore[arg-type]
    assert total == len(everything)
    return [line.id for line in found]


def test_projects_are_counted_and_begin_with_that_of_the_newest_run(filled: Store) -> None:
    """I4."""
    (run,) = filled.load_runs(["r0"]).values()
    filled.apply([step(run, RunEvent.STOP_REQUESTED, outcome=Outcome.STOPPED, ended_at=200.0)])
    assert filled.run_views.projects(None) == [
        Project(id="speech", runs=3, live=3, newest_at=105.0),
        Project(id="vision", runs=3, live=2, newest_at=102.0),
    ]


def test_the_newest_are_first_unless_another_order_is_chosen(filled: Store) -> None:
    """I1."""
    assert table(filled) == ["r5", "r4", "r3", "r2", "r1", "r0"]
    assert table(filled, sort="created_at") == ["r0", "r1", "r2", "r3", "r4", "r5"]
    assert table(filled, sort="user") == ["r1", "r3", "r5", "r0", "r2", "r4"]
    assert table(filled, sort="-user") == ["r4", "r2", "r0", "r5", "r3", "r1"]
    assert table(filled, sort="status") == ["r4", "r5", "r0", "r1", "r2", "r3"]


def test_windows_of_an_order_with_equal_values_make_the_whole(filled: Store) -> None:
    """Every run is in exactly one window: equal values are in the order of their ids."""
    windows = [table(filled, sort="-project", offset=offset, limit=2) for offset in (0, 2, 4)]
    assert [run for window in windows for run in window] == ["r2", "r1", "r0", "r5", "r4", "r3"]
    assert table(filled, offset=6) == []
    assert table(filled, limit=0) == []


def test_filters_are_joined_and_their_values_are_alternatives(filled: Store) -> None:
    assert table(filled, status=["pending"]) == ["r5", "r4"]
    assert table(filled, status=["pending", "queued", "failed"], user=["ada"]) == ["r5", "r3", "r1"]
    assert table(filled, project=["vision"], mode=["cycle"]) == ["r2"]
    assert table(filled, project=["vision", "speech", "none"]) == table(filled)
    assert table(filled, label=["team=a", "try=3"]) == ["r3"]
    assert table(filled, label=["try=9"]) == []
    assert table(filled, cluster=["none"]) == []
    assert table(filled, array="r1") == []


def test_a_text_is_part_of_a_name_or_begins_an_id(filled: Store) -> None:
    """Case does not count, and no character is a pattern."""
    assert table(filled, text="resnet") == ["r2", "r0"]
    assert table(filled, text="0%_o") == ["r3"]
    assert table(filled, text="%") == ["r3"]
    assert table(filled, text="r4") == ["r4"]


def test_runs_of_users_out_of_sight_are_neither_listed_nor_counted(filled: Store) -> None:
    """I2."""
    seen = Sight(user="bob", users=frozenset())
    assert table(filled, seen) == ["r4", "r2", "r0"]
    assert table(filled, seen, user=["ada"]) == []
    assert [line.id for line in filled.run_views.lines(["r0", "r1", "gone"], seen)] == ["r0"]
    assert filled.run_views.counts("user", RunFilter(), seen) == {"bob": 3}
    assert [project.runs for project in filled.run_views.projects(seen)] == [1, 2]
    assert table(filled, Sight(user="eve", users=frozenset())) == []


def test_the_values_of_a_field_are_counted_within_the_filters_by_others(filled: Store) -> None:
    """I1."""

    def counts(field: str, **chosen: Any) -> dict[str, int]:
        return filled.run_views.counts(field, RunFilter(**chosen), None)

    assert counts("status") == {"queued": 4, "pending": 2}
    assert counts("user") == {"ada": 3, "bob": 3}
    assert counts("project") == {"vision": 3, "speech": 3}
    assert counts("mode") == {"batch": 5, "cycle": 1}
    assert counts("cluster") == {}
    chosen: dict[str, Any] = {"user": ("ada",), "project": ("vision",), "text": "v"}
    assert counts("project", **chosen) == {"vision": 1}
    assert counts("user", **chosen) == {"ada": 1}
    assert counts("status", **chosen) == {"queued": 1}
    assert counts("mode", text="\x00") == {}


def test_runs_are_counted_and_found_by_their_kind(filled: Store) -> None:
    """I1: from these facts follows the status of a run in the words of any system."""
    counts = filled.run_views.counts("kind", RunFilter(status=("queued",)), None)
    assert counts == {"queued   batch 0 0": 3, "queued   cycle 0 0": 1}
    assert table(filled, kind=["queued   cycle 0 0", "pending   cycle 0 0"]) == ["r2"]
    assert table(filled, kind=[""]) == []


def test_a_burst_run_is_staged_until_a_rental_of_it_exists(filled: Store) -> None:
    """I13: the states of the ISC follow from it."""
    rented = [new_run(f"b{n}", mode=Mode.BURST, target=Target(cluster=f"burst-b{n}")) for n in (1, 2)]
    filled.create_runs([*rented, new_run("b3", mode=Mode.BURST, target=Target(cluster="rehearsal"))])
    about = {"user": "ada", "project": "vision", "server": "local", "number": 1, "requested_at": 5.0}
    rental = Rental(id="b2-1", run_id="b2", **about)
    assert filled.rentals.apply([RentalStep(before=None, after=rental)]) == [True]
    views = filled.run_views
    _, found = views.window(RunWindow(sort="-staged"), None)
    assert {line.id: line.staged for line in found} == {**dict.fromkeys(table(filled), False), "b1": True}
    assert found[0].id == "b1"
    assert [line.staged for line in views.lines(["b1"], None)] == [True]
    assert {line.id for line in filled.runs(RunQuery()) if line.staged} == {"b1"}
    assert views.counts("kind", RunFilter(mode=("burst",)), None) == {
        "queued   burst 0 1": 1,
        "queued   burst 0 0": 2,
    }
    assert table(filled, kind=["queued   burst 0 1"]) == ["b1"]


def test_runs_are_found_by_their_ids(filled: Store) -> None:
    assert table(filled, id=["r1", "r4", "gone"]) == ["r4", "r1"]
    assert table(filled, id=["r1", "r4"], user=["ada"]) == ["r1"]


def test_the_saved_views_of_each_user_are_their_own(store: Store) -> None:
    views = store.run_views
    assert views.saved("ada") == []
    failed, mine = SavedView(name="failed", query="status=failed"), SavedView(name="Mine", query="scope=mine")
    for view in (failed, mine, SavedView(name="Mine", query="x=1"), mine):
        views.save("ada", view)
    views.save("bob", failed)
    assert views.saved("ada") == [mine, failed]
    views.forget("ada", "failed")
    views.forget("ada", "none\x00")
    assert (views.saved("ada"), views.saved("bob")) == ([mine], [failed])


def test_a_text_that_no_database_can_hold_finds_nothing(filled: Store) -> None:
    assert table(filled, text="\x00") == []
    assert table(filled, user=["\ud800"]) == []
