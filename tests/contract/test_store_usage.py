"""What every store guarantees of usage, counted once, and of described clusters."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from histories import ended, new_run, placed, step
from tarmac.model.changes import HOUR_S, UsageBucket
from tarmac.model.cluster import Cluster, NodeGroup, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunEvent
from tarmac.model.people.usage import DAY_S, AttemptSpan, UsedSlots
from tarmac.model.ports import Store
from tarmac.model.run import QueuePosition, Release, Run
from tarmac.model.run_records import Dataset, DatasetState

HOUR = 10 * HOUR_S


def bucket(slot_s: float, *, hour_at: float = HOUR, **fields: str) -> UsageBucket:
    wanted = {"cluster": "local", "pool": "p", "user": "ada", "project": "default"} | fields
    return UsageBucket(hour_at=hour_at, slot_s=slot_s, **wanted)


def running(store: Store, run_id: str, **fields: object) -> Run:
    (run,) = store.create_runs([new_run(run_id, **fields)])  # type: ignore[arg-type]
    start = placed(run)
    assert store.apply([start]) == [True]
    return start.after


def test_usage_adds_up_by_hour_pool_user_and_project(step_store: Store) -> None:
    """D13: what a fair share is judged by."""
    store = step_store
    runs = [running(store, f"r{number}") for number in range(3)]
    others = [running(store, "s1", user="bob"), running(store, "s2", project="vision")]
    assert store.apply([ended(run, 10.0) for run in runs]) == [True] * 3, "one hour, in one transaction"
    later = ended(others[0], 4.0, at=HOUR + HOUR_S)
    elsewhere = ended(others[1], 5.0, pool="q")
    assert store.apply([later, elsewhere]) == [True, True]
    assert store.usage(0.0) == [
        bucket(30.0),
        bucket(5.0, pool="q", project="vision"),
        bucket(4.0, hour_at=HOUR + HOUR_S, user="bob"),
    ]
    assert store.usage(HOUR + 1.0) == [bucket(4.0, hour_at=HOUR + HOUR_S, user="bob")]


def test_usage_is_counted_once_whoever_records_the_end(step_store: Store) -> None:
    store = step_store
    run = running(store, "r1")
    end = ended(run, 10.0)
    assert store.apply([end, end]) == [True, False]
    assert store.apply([end]) == [False]
    late = step(end.after, attempt=replace(end.attempt, cause=None))  # more is learned of it: no more usage
    assert store.apply([late]) == [True]
    assert store.apply([ended(run, 3.0), step(run, RunEvent.STOP_REQUESTED)], whole=True) == [False, False]
    assert store.usage(0.0) == [bucket(10.0)]


def test_a_heavier_run_counts_for_less(step_store: Store) -> None:
    store = step_store
    run = running(store, "r1", weight=2.0)
    assert store.apply([ended(run, 10.0)]) == [True]
    other = running(store, "r2", weight=2.0)
    heavier = step(other, RunEvent.REORDERED, queue_position=QueuePosition(priority=0, weight=5.0))
    assert store.apply([heavier, ended(heavier.after, 10.0)]) == [True, True]
    assert store.usage(0.0) == [bucket(10.0 / 2.0 + 10.0 / 5.0)]


def test_clusters_are_kept_replaced_and_removed(store: Store) -> None:
    pool = Pool(cluster="site", name="big", policy=Policy.FAIR_SHARE, shares={"ada": 2.0})
    site = Cluster(name="site", groups=(NodeGroup(nodes=2, slots=8, pool="big"),), pools=(pool,))
    lab = Cluster(name="lab", groups=(NodeGroup(nodes=1, slots=1, hostnames=("h",)),))
    assert store.clusters() == []
    store.put_cluster(site)
    store.put_cluster(lab)
    assert store.clusters() == [lab, site]
    smaller = replace(site, pools=())
    store.put_cluster(smaller)
    assert store.clusters() == [lab, smaller]
    store.remove_cluster("lab")
    store.remove_cluster("nothing")
    store.remove_cluster("\0")
    assert store.clusters() == [smaller]
    with pytest.raises(InvalidInput):
        store.put_cluster(replace(site, name="a\0b"))


def test_datasets_are_kept_replaced_and_removed(store: Store) -> None:
    """I8."""
    mnist = Dataset(id="mnist", source="/data/mnist", user="ada", created_at=1.0, server="local")
    other = Dataset(
        id="c4", source="s3://b/c4", user="bo", created_at=2.0, state=DatasetState.CACHING, server="local"
    )
    assert store.datasets() == []
    store.put_dataset(mnist)
    store.put_dataset(other)
    assert store.datasets() == [other, mnist]
    there = replace(other, state=DatasetState.AVAILABLE, path="/cache/c4", done_bytes=5, total_bytes=5)
    store.put_dataset(there)
    assert store.datasets() == [there, mnist]
    store.remove_dataset("mnist")
    store.remove_dataset("nothing")
    store.remove_dataset("\0")
    assert store.datasets() == [there]
    with pytest.raises(InvalidInput):
        store.put_dataset(replace(mnist, id="a\0b"))


def test_what_attempts_held_in_a_range_of_time(store: Store) -> None:
    """An attempt counts by its slots from its grant to its end, and no further than the range."""
    run = running(store, "r1", user="ada", project="vision")
    other = running(store, "r2", user="bob")
    assert store.apply([ended(run, 10.0, at=HOUR + 5.0)]) == [True]
    (begin,) = {span.begin for span in store.attempt_spans(0.0, HOUR) if span.run_id == run.id}
    (span,) = [span for span in store.attempt_spans(0.0, HOUR + 100.0) if span.run_id == run.id]
    assert (span.user, span.project, span.cluster, span.slots) == ("ada", "vision", "local", 1)
    assert span.end == HOUR + 5.0
    assert span.slot_s(0.0, HOUR + 100.0) == HOUR + 5.0 - begin
    assert span.slot_s(HOUR, HOUR + 3.0) == 3.0
    assert {span.run_id for span in store.attempt_spans(HOUR + 5.0, HOUR + 9.0)} == {other.id}
    assert store.attempt_spans(-2.0, -1.0) == []


def test_a_removed_run_keeps_its_usage(store: Store) -> None:
    """Accounts outlive runs, by the same numbers in every range, and no run can be removed twice."""
    run = running(store, "r1", user="ada", project="vision")
    live = running(store, "r2", user="bob")
    over = ended(run, 10.0)
    assert over.attempt is not None
    released = (Release(role="main", replica=0, at=HOUR + 2.0),)
    over = replace(over, attempt=replace(over.attempt, released=released))
    assert store.apply([over]) == [True]
    stopped = step(over.after, RunEvent.STOP_REQUESTED)
    assert store.apply([stopped]) == [True]
    ranges = [(0.0, HOUR + 100.0), (HOUR + 1.0, HOUR + 3.0), (HOUR + 5.0, HOUR + 9.0), (-2.0, -1.0)]
    before = [by_id(store.attempt_spans(*each)) for each in ranges]
    assert [span.run_id for span in before[0]] == ["r1", "r2"]
    assert store.remove_runs(["r1", "r2"]) == {"r1"}
    assert store.remove_runs(["r1", live.id]) == frozenset()
    assert [by_id(store.attempt_spans(*each)) for each in ranges] == before


def test_usage_that_was_read_before_follows_later_changes(store: Store) -> None:
    """Also where a run has ended and was removed since."""
    runs = [running(store, f"r{number}", user="ada") for number in range(3)]
    assert [span.end for span in store.attempt_spans(0.0, HOUR)] == [None] * 3
    overs = [ended(run, 10.0, at=HOUR / 2) for run in runs[:2]]
    assert store.apply(overs) == [True] * 2
    assert store.apply([step(overs[0].after, RunEvent.STOP_REQUESTED)]) == [True]
    assert store.remove_runs(["r0"]) == {"r0"}
    running(store, "r3", user="bob")
    found = by_id(store.attempt_spans(0.0, HOUR))
    assert [(span.run_id, span.end) for span in found] == [
        ("r0", HOUR / 2),
        ("r1", HOUR / 2),
        ("r2", None),
        ("r3", None),
    ]


DAYS = (0.0, 10 * DAY_S)


def test_the_usage_of_ended_attempts_adds_up_by_day(store: Store) -> None:
    """I13: as the attempts themselves do, each day for itself; a run counts on the day on which it began."""
    made = [running(store, f"r{number}", user="ada") for number in range(3)]
    first = ended(made[0], 10.0, at=2 * DAY_S + 60.0)
    assert store.apply([first, ended(made[1], 10.0, at=HOUR)]) == [True, True]
    again = placed(first.after, 2)
    assert store.apply([again, ended(again.after, 5.0, at=3 * DAY_S)]) == [True, True], "a second attempt"
    days, spans = store.used_slots(DAYS, [], by_day=True)
    assert [span.run_id for span in spans] == ["r2"], "live ones are no part of the sums"
    assert summed(days) == summed(of_days(store.attempt_spans(*DAYS)))
    assert {at: amounts[:2] for at, amounts in summed(days).items()} == {
        (0.0, "ada"): (2, 3),
        **{(day * DAY_S, "ada"): (0, 0) for day in (1, 2)},
    }
    in_total = sum(each.slot_s for each in days)
    whole = store.used_slots(DAYS, [], by_day=False)[0]
    assert summed(whole) == {(None, "ada"): (2, 3, pytest.approx(in_total))}
    assert summed(store.used_slots((DAY_S, 2 * DAY_S), [], by_day=True)[0]).keys() == {(DAY_S, "ada")}
    part = [(DAY_S / 2, DAY_S), (2 * DAY_S, 2 * DAY_S + 9.0)]
    nothing, spans = store.used_slots((DAY_S, DAY_S), part, by_day=True)
    assert (nothing, sorted((span.run_id, span.attempt) for span in spans)) == (
        [],
        [("r0", 1), ("r0", 2), ("r2", 1)],
    )


def test_sums_of_usage_count_an_end_once_and_outlive_runs(store: Store) -> None:
    run = running(store, "r1", user="ada")
    over = ended(run, 10.0)
    assert over.attempt is not None
    released = (Release(role="main", replica=0, at=HOUR + 2.0),)
    over = replace(over, attempt=replace(over.attempt, released=released))
    assert store.apply([over]) == [True]
    before = store.used_slots(DAYS, [], by_day=True)[0]
    assert summed(before) == summed(of_days(store.attempt_spans(*DAYS))), "without what was released"
    late = step(over.after, attempt=replace(over.attempt, cause=None))  # more is learned of it
    assert store.apply([late]) == [True]
    assert store.apply([over, step(over.after, RunEvent.STOP_REQUESTED)]) == [False, True]
    assert store.remove_runs(["r1"]) == {"r1"}
    assert store.used_slots(DAYS, [], by_day=True)[0] == before


def of_days(spans: Iterable[AttemptSpan]) -> list[UsedSlots]:
    """The usage of ended attempts by day, from each of them."""
    return [
        UsedSlots(
            user=span.user,
            project=span.project,
            cluster=span.cluster,
            pool=span.pool,
            runs=int(span.attempt == 1 and day == span.begin // DAY_S),
            attempts=int(day == span.begin // DAY_S),
            slot_s=span.slot_s(day * DAY_S, (day + 1) * DAY_S),
            begin_at=day * DAY_S,
        )
        for span in spans
        if span.end is not None
        for day in range(int(span.begin // DAY_S), int((span.end - 1e-6) // DAY_S) + 1)
    ]


def summed(used: Iterable[UsedSlots]) -> dict[tuple[float | None, str], tuple[int, int, object]]:
    """Runs, attempts and slot-seconds by the day and the user."""
    found: dict[tuple[float | None, str], tuple[int, int, float]] = {}
    for each in used:
        runs, attempts, slot_s = found.get((each.begin_at, each.user), (0, 0, 0.0))
        found[each.begin_at, each.user] = runs + each.runs, attempts + each.attempts, slot_s + each.slot_s
    return {key: (*counts, pytest.approx(slot_s)) for key, (*counts, slot_s) in found.items()}  # type: ignore[misc]


def by_id(spans: Iterable[AttemptSpan]) -> list[AttemptSpan]:
    return sorted(spans, key=lambda span: span.run_id)
