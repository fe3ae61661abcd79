"""Notes and changed labels: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import cast

import pytest

from histories import new_run, step
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunEvent
from tarmac.model.ports import Store
from tarmac.model.run_records import Annotation, AnnotationKind, Annotations
from tarmac.model.summary import RunQuery
from tarmac.store import SqlStore

NOTE = Annotation(at=1.5, actor="ada", kind=AnnotationKind.NOTE, text="caf\u00e9 \u4e2d\n")
LABEL = Annotation(at=2.5, actor="bo", kind=AnnotationKind.LABEL, text="team=vision draft-")


def records_of(store: Store) -> Annotations:
    return cast(SqlStore, store).annotations


def listed(store: Store, key: str, value: str) -> list[str]:
    return [summary.id for summary in store.runs(RunQuery(labels={key: value}))]


def test_notes_are_kept_in_order_and_go_with_their_run(store: Store) -> None:
    [run, _] = store.create_runs([new_run("r1"), new_run("r2")])
    records = records_of(store)
    assert records.add("r1", NOTE)
    assert records.add("r1", LABEL)
    assert records.of("r1") == [NOTE, LABEL]
    assert (records.of("r2"), records.of("\0")) == ([], [])
    assert not records.add("nothing", NOTE)
    store.apply([step(run, RunEvent.STOP_REQUESTED)])
    store.remove_runs(["r1"])
    assert records.of("r1") == []


def test_labels_change_in_the_run_and_in_lists(store: Store) -> None:
    [run] = store.create_runs([new_run("r1", labels={"team": "x", "draft": "1"})])
    store.apply([step(run, RunEvent.STOP_REQUESTED)])
    records = records_of(store)
    assert records.change_labels({"r1": ({"team": "vision", "draft": None, "new": "n"}, LABEL)}) == {"r1"}
    after = store.run("r1")
    assert after is not None
    assert after.spec.labels == {"team": "vision", "new": "n"}
    assert after.seq == 3, "nothing happened to the run itself"
    assert (listed(store, "team", "vision"), listed(store, "team", "x"), listed(store, "draft", "1")) == (
        ["r1"],
        [],
        [],
    )
    assert records.of("r1") == [LABEL]
    changes = {run: ({"team": None, "new": None}, LABEL) for run in ("r1", "nothing", "\x00")}
    assert records.change_labels(changes) == {"r1"}
    assert records.change_labels({}) == frozenset()


def test_text_that_no_database_can_hold_is_refused(store: Store) -> None:
    store.create_runs([new_run("r1")])
    for text in ("a\0b", "\ud800"):
        with pytest.raises(InvalidInput):
            records_of(store).add("r1", Annotation(at=1.0, actor="ada", kind=AnnotationKind.NOTE, text=text))
