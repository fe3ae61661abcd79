"""Metrics of runs: the same promises in memory, on SQLite and on PostgreSQL."""

from __future__ import annotations

from math import inf, isnan, nan

import pytest

from histories import new_run, step
from tarmac.model.actor import Lease
from tarmac.model.errors import LeaseLost
from tarmac.model.lifecycle import RunEvent
from tarmac.model.metrics import (
    MOST_SERIES,
    NO_STEP,
    VALIDATION,
    Extreme,
    MetricEvent,
    MetricReport,
    ReportBatch,
    SeriesKey,
)
from tarmac.model.ports import Store

LOSS = SeriesKey(run_id="r1", group="training", name="loss")


def report(step: int | None, value: float, *, at: float = 0.0, name: str = "loss") -> MetricReport:
    return MetricReport(at=at or float(step or 0), step=step, values={name: value})


def batch(begin: int, end: int, *reports: MetricReport, attempt: int = 1, run: str = "r1") -> ReportBatch:
    return ReportBatch(run_id=run, attempt=attempt, node="n", begin=begin, end=end, reports=reports)


def steps_of(store: Store, key: SeriesKey = LOSS) -> list[tuple[int, float]]:
    found = store.metrics.points([key])[key]
    return list(zip(found.steps, found.values, strict=True))


def test_a_piece_of_a_file_is_taken_once(store: Store) -> None:
    store.create_runs([new_run("r1")])
    first = batch(0, 10, report(1, 0.5), report(2, 0.25))
    assert store.metrics.take([first, batch(0, 5, report(1, 9.0), run="gone")]) == [True, False]
    assert store.metrics.take([first]) == [False], "it was taken before"
    assert store.metrics.take([batch(20, 30, report(9, 9.0))]) == [False], "what is between is missing"
    assert store.metrics.take([batch(10, 20)]) == [True], "a piece of nothing but rubbish"
    assert store.metrics.positions(["r1", "gone"]) == {("r1", 1, "n"): 20}
    assert steps_of(store) == [(1, 0.5), (2, 0.25)]
    latest = store.metrics.latest(["r1", "gone"])
    assert (list(latest), latest["r1"].report, latest["r1"].node) == (["r1"], first.reports[-1], "n")


def test_a_series_has_all_its_points_over_many_looks(store: Store) -> None:
    store.create_runs([new_run("r1"), new_run("r2")])
    for look in range(20):
        reports = [report(number, -float(number)) for number in range(look * 40, look * 40 + 40)]
        assert store.metrics.take([batch(look, look + 1, *reports)]) == [True]
    store.metrics.take([batch(0, 1, report(5, 1.0), run="r2")])
    assert steps_of(store) == [(number, -float(number)) for number in range(800)]
    [summary, other] = store.metrics.summaries(["r1", "r2"])
    assert (summary.key, summary.count, other.key.run_id) == (LOSS, 800, "r2")
    assert (summary.last, summary.last_at) == (Extreme(value=-799.0, step=799), 799.0)
    assert (summary.low, summary.high) == (Extreme(value=-799.0, step=799), Extreme(value=0.0, step=0))
    assert summary.total == -sum(range(800))
    unknown = SeriesKey(run_id="r1", group="training", name="no")
    assert store.metrics.points([unknown]) == {}


def test_what_an_attempt_repeats_supersedes_what_earlier_ones_reported(store: Store) -> None:
    """The first step of a newer attempt cuts off what came later before; also across closed chunks."""
    store.create_runs([new_run("r1")])
    store.metrics.take([batch(0, 1, *(report(number, float(number)) for number in range(1000)))])
    store.metrics.take([batch(0, 1, report(600, -1.0), report(601, -2.0), attempt=2)])
    expected = [(number, float(number)) for number in range(600)] + [(600, -1.0), (601, -2.0)]
    assert steps_of(store) == expected
    [summary] = store.metrics.summaries(["r1"])
    assert (summary.count, summary.last.value, summary.total) == (602, -2.0, sum(range(600)) - 3.0)
    assert (summary.high, summary.low) == (Extreme(value=599.0, step=599), Extreme(value=-2.0, step=601))
    store.metrics.take([batch(1, 2, report(2, 5000.0), attempt=1)])
    assert steps_of(store) == expected, "an attempt that is over has nothing more to say"
    store.metrics.take([batch(0, 1, report(700, 7.0), attempt=3)])
    assert steps_of(store) == [*expected, (700, 7.0)]


def test_within_an_attempt_the_last_report_of_a_step_counts(store: Store) -> None:
    store.create_runs([new_run("r1")])
    rows = [report(1, 1.0), report(3, 3.0), report(2, 2.0), report(1, 1.5), report(None, 0.0, at=9.0)]
    store.metrics.take([batch(0, 1, *rows)])
    assert steps_of(store) == [(NO_STEP, 0.0), (1, 1.5), (2, 2.0), (3, 3.0)]


def test_numbers_that_are_not_finite_are_kept_and_are_no_extremes(store: Store) -> None:
    store.create_runs([new_run("r1")])
    store.metrics.take([batch(0, 1, report(1, inf), report(2, 1.0), report(3, nan))])
    [summary] = store.metrics.summaries(["r1"])
    assert isnan(summary.last.value)
    assert (summary.low, summary.high) == (Extreme(value=1.0, step=2), Extreme(value=1.0, step=2))
    assert [str(value) for _, value in steps_of(store)] == ["inf", "1.0", "nan"]
    assert isnan(store.metrics.latest(["r1"])["r1"].report.values["loss"])


def test_groups_and_ranks_are_series_of_their_own(store: Store) -> None:
    store.create_runs([new_run("r1")])
    rows = [
        MetricReport(at=1.0, step=1, values={"loss": 1.0, "b": 0.0}, texts={"note": "x"}),
        MetricReport(at=2.0, step=1, group=VALIDATION, values={"loss": 2.0}),
        MetricReport(at=3.0, step=1, rank=3, values={"loss": 3.0}),
    ]
    store.metrics.take([batch(0, 1, *rows)])
    keys = [summary.key for summary in store.metrics.summaries(["r1"])]
    assert [(key.group, key.name, key.rank) for key in keys] == [
        ("training", "b", 0),
        ("training", "loss", 0),
        ("training", "loss", 3),
        ("validation", "loss", 0),
    ]
    assert {key.rank: found.values[0] for key, found in store.metrics.points(keys[1:3]).items()} == {
        0: 1.0,
        3: 3.0,
    }


def test_a_run_has_only_so_many_series(store: Store) -> None:
    store.create_runs([new_run("r1")])
    for look in range(2):
        names = {f"m{look}.{number}": 0.0 for number in range(MOST_SERIES - 300)}
        store.metrics.take([batch(look, look + 1, MetricReport(at=1.0, step=look, values=names))])
    assert len(store.metrics.summaries(["r1"])) == MOST_SERIES
    store.metrics.take([batch(2, 3, MetricReport(at=2.0, step=2, values={"m0.0": 5.0, "new": 1.0}))])
    found = {each.key.name: each.last.value for each in store.metrics.summaries(["r1"])}
    assert (found["m0.0"], "new" in found) == (5.0, False)


def test_events_are_kept_with_their_reports_until_they_are_taken(store: Store) -> None:
    store.create_runs([new_run("r1"), new_run("r2")])

    def event(number: int, run: str = "r1") -> MetricEvent:
        body = {"value": number}
        return MetricEvent(subscriber="search", run_id=run, attempt=1, at=1.0, step=number, body=body)

    def taken(begin: int, *events: MetricEvent, run: str = "r1") -> list[bool]:
        piece = ReportBatch(run_id=run, attempt=1, node="n", begin=begin, end=begin + 1, events=events)
        return store.metrics.take([piece])

    assert [taken(0, event(1), event(2)), taken(0, event(1))] == [[True], [False]]
    assert taken(0, event(3, "r2"), run="r2") == [True]
    found = store.metrics.events("search", after_id=0)
    assert [each.body["value"] for each in found] == [1, 2, 3]
    assert store.metrics.events("search", after_id=found[0].id, limit=1) == [found[1]]
    assert store.metrics.events("other", after_id=0) == []
    store.metrics.forget_events("other", until_id=found[-1].id)
    store.metrics.forget_events("search", until_id=found[1].id)
    assert store.metrics.events("search", after_id=0) == [found[2]]


def test_metrics_go_with_their_run(store: Store) -> None:
    [run, _] = store.create_runs([new_run("r1"), new_run("r2")])
    gone = MetricEvent(subscriber="s", run_id="r1", attempt=1, at=1.0, step=1, body={})
    first = batch(0, 1, *(report(number, 1.0) for number in range(300)))
    store.metrics.take([ReportBatch(run_id="r1", attempt=1, node="m", begin=0, end=1, events=(gone,)), first])
    store.apply([step(run, RunEvent.STOP_REQUESTED)])
    store.remove_runs(["r1"])
    assert store.metrics.summaries(["r1"]) == []
    assert (store.metrics.points([LOSS]), store.metrics.positions(["r1"])) == ({}, {})
    assert store.metrics.latest(["r1"]) == {}
    assert store.metrics.events("s", after_id=0) == []


def test_a_server_that_was_replaced_takes_nothing(store: Store) -> None:
    store.create_runs([new_run("r1")])
    with pytest.raises(LeaseLost):
        store.metrics.take([batch(0, 1, report(1, 1.0))], lease=Lease(cluster="c", home="h", token=1))
    assert store.metrics.positions(["r1"]) == {}
