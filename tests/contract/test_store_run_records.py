"""What runs keep by name: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from typing import cast

from histories import new_run, step
from tarmac.model.codec import replace
from tarmac.model.lifecycle import RunEvent
from tarmac.model.metrics import ReportBatch
from tarmac.model.ports import Store
from tarmac.model.run_records import RunRecord, RunRecordKind, RunRecords
from tarmac.store import SqlStore

CHECKPOINT, METADATA = RunRecordKind.CHECKPOINT, RunRecordKind.METADATA
FIRST = RunRecord(run_id="r1", kind=CHECKPOINT, name="b", attempt=1, at=1.5, body={"steps": 3, "x": "é"})
SECOND = RunRecord(run_id="r1", kind=CHECKPOINT, name="a", attempt=2, at=2.5)


def records_of(store: Store) -> RunRecords:
    return cast(SqlStore, store).run_records


def test_records_are_found_by_run_and_by_name_and_go_with_their_run(store: Store) -> None:
    [run, _] = store.create_runs([new_run("r1"), new_run("r2")])
    records = records_of(store)
    other = replace(FIRST, run_id="r2", at=0.5)
    assert all(records.put(each) for each in (SECOND, FIRST, other))
    assert records.of("r1", CHECKPOINT) == [FIRST, SECOND]
    assert records.of("r1", METADATA) == []
    assert records.named(CHECKPOINT, "b") == [other, FIRST]
    assert (records.named(METADATA, "b"), records.named(CHECKPOINT, "\0")) == ([], [])
    assert not records.put(replace(FIRST, run_id="nothing"))
    store.apply([step(run, RunEvent.STOP_REQUESTED)])
    store.remove_runs(["r1"])
    assert (records.of("r1", CHECKPOINT), records.named(CHECKPOINT, "b")) == ([], [other])


def test_a_record_takes_the_place_of_an_older_one(store: Store) -> None:
    store.create_runs([new_run("r1")])
    records = records_of(store)
    newer = replace(FIRST, attempt=3, at=9.0, body={})
    assert records.put(FIRST)
    assert records.put(newer)
    assert records.of("r1", CHECKPOINT) == [newer]


def test_a_record_comes_with_the_reports_that_it_stands_beside_or_not_at_all(store: Store) -> None:
    store.create_runs([new_run("r1")])
    batch = ReportBatch(run_id="r1", attempt=1, node="n", begin=0, end=1, records=(FIRST,))
    late = replace(batch, records=(SECOND,))  # of the same place in the file
    assert store.metrics.take([batch]) == [True]
    assert store.metrics.take([late]) == [False]
    assert store.metrics.take([replace(batch, run_id="nothing", begin=0)]) == [False]
    assert records_of(store).of("r1", CHECKPOINT) == [FIRST]
