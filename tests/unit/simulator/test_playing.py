"""Plays: the real control plane in virtual time, on jobs small enough to be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.model.cluster import Cluster, Policy
from tarmac.simulator.jobs import Job
from tarmac.simulator.measures import measures
from tarmac.simulator.playing import EPOCH_S, Play, Rules
from tarmac.simulator.record import Record
from tarmac.simulator.shapes import shape_of
from tarmac.simulator.traces import read_trace

DATA = Path(__file__).parents[2] / "data" / "traces"

POLICIES = list(Policy)


def job(number: int, submitted_at: float, duration_s: float, slots: int, **more: object) -> Job:
    """A job of no user in particular."""
    return Job(
        id=f"{number:03}",
        name=f"job{number}",
        submitted_at=submitted_at,
        duration_s=duration_s,
        slots=slots,
        **more,
    )


def cluster(shape: str) -> Cluster:
    """A cluster of a shape."""
    made = shape_of(shape)
    assert made is not None
    return made


def played(jobs: list[Job], shape: str, **rules: object) -> Record:
    """The record of a whole play."""
    record = Play(jobs, cluster(shape), Rules(**rules)).run()
    assert record.complete
    return record


def times(record: Record) -> list[tuple[float | None, float | None]]:
    """When each job started and ended, counted from the beginning."""

    def since(at: float | None) -> float | None:
        return None if at is None else at - EPOCH_S

    return [(since(passage.started_at), since(passage.ended_at)) for passage in record.passages.values()]


def test_jobs_wait_for_one_another_and_end_when_they_have_worked() -> None:
    record = played([job(1, 0, 100, 4), job(2, 10, 50, 4), job(3, 20, 30, 2)], "1x4")
    assert times(record) == [(0, 100), (100, 150), (150, 180)]
    assert record.ended == 3


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_ends_every_job_and_each_has_worked_its_time(policy: Policy) -> None:
    trace = read_trace(str(DATA / "muri_excerpt.csv"))
    record = Play(trace.jobs, cluster("4x8"), Rules(policy=policy)).run()
    assert record.ended == len(trace.jobs)
    for passage in record.passages.values():
        assert passage.ended_at is not None
        assert passage.held_s == pytest.approx(passage.job.duration_s, abs=1e-3)
        assert not passage.failed


def test_a_preempted_job_keeps_what_it_did() -> None:
    """Two that attained nothing yet take turns on the ladder; nothing of their work is lost or free."""
    record = played([job(1, 0, 40_000, 4), job(2, 1_000, 4_000, 4)], "1x4", policy=Policy.LEAST_ATTAINED)
    first, second = record.passages.values()
    assert first.preemptions >= 1
    assert second.ended_at is not None
    assert first.ended_at is not None
    assert second.ended_at < first.ended_at
    assert first.ended_at - EPOCH_S == 44_000, "together they work as long as one after the other"
    assert first.held_s == pytest.approx(40_000)


def test_every_start_costs_the_restart_cost() -> None:
    plain = played([job(1, 0, 100, 4)], "1x4", restart_s=0.0)
    costly = played([job(1, 0, 100, 4)], "1x4", restart_s=30.0)
    assert times(plain) == [(0, 100)]
    assert times(costly) == [(30, 130)]
    again = played(
        [job(1, 0, 40_000, 4), job(2, 1_000, 4_000, 4)],
        "1x4",
        policy=Policy.LEAST_ATTAINED,
        restart_s=30.0,
    )
    starts = 2 + sum(passage.preemptions for passage in again.passages.values())
    assert max(passage.ended_at or 0 for passage in again.passages.values()) - EPOCH_S == pytest.approx(
        44_000 + 30 * starts
    )


def test_without_preemption_nobody_is_preempted() -> None:
    record = played(
        [job(1, 0, 40_000, 4), job(2, 1_000, 4_000, 4)],
        "1x4",
        policy=Policy.LEAST_ATTAINED,
        preemption=False,
    )
    assert times(record) == [(0, 40_000), (40_000, 44_000)]


def test_a_job_that_never_fits_is_reported_and_the_others_go_on() -> None:
    record = played([job(1, 0, 10, 9), job(2, 0, 10, 8)], "1x8")
    assert list(record.never_fits) == [0]
    assert "what would fit" in record.never_fits[0]
    assert times(record) == [(0, 10)]
    found = measures(record, 8)
    assert (found.ended, found.never_fits, found.unfinished) == (1, 1, 0)


def test_limits_let_short_jobs_pass_without_delaying_the_first() -> None:
    """What ends in time by its limit runs beside what waits for more."""
    jobs = [job(1, 0, 100, 3), job(2, 1, 100, 4), job(3, 2, 60, 1), job(4, 3, 90, 1)]
    record = played(jobs, "1x4", limit_factor=1.0)
    assert times(record) == [(0, 100), (100, 200), (2, 62), (200, 290)]


def test_a_limit_that_is_too_short_ends_the_job_as_failed() -> None:
    record = played([job(1, 0, 100, 1, limit_s=40.0)], "1x1")
    (passage,) = record.passages.values()
    assert passage.failed
    assert times(record) == [(0, 40)]


def test_a_play_that_is_stopped_leaves_what_was_known() -> None:
    jobs = [job(number, number * 100.0, 50, 1) for number in range(20)]
    play = Play(jobs, cluster("1x1"), Rules())
    record = play.run(stop=lambda: play.record.ended >= 5)
    assert not record.complete
    found = measures(record, 1)
    assert (found.ended, found.unfinished) == (5, 15)
    assert found.completion_mean_s == 50.0


@pytest.mark.heavy
@pytest.mark.parametrize("policy", POLICIES)
def test_a_play_is_the_same_every_time(policy: Policy) -> None:
    trace = read_trace(str(DATA / "shockwave_excerpt.trace"))
    first, second = (Play(trace.jobs, cluster("2x4"), Rules(policy=policy)).run() for _ in range(2))
    assert times(first) == times(second)
    assert list(first.busy_slots) == list(second.busy_slots)


def test_nothing_is_kept_of_what_has_ended() -> None:
    """Months of jobs must not fill the memory."""
    jobs = [job(number, number * 10.0, 5, 1) for number in range(1000)]
    play = Play(jobs, cluster("1x1"), Rules())
    play.run()
    assert len(list(play.store.live_runs())) == 0
    assert len(play.store.feed(after_id=0, limit=10**6)) < 1000


@pytest.mark.heavy
def test_slots_are_never_held_twice() -> None:
    trace = read_trace(str(DATA / "muri_excerpt.csv"))
    play = Play(trace.jobs, cluster("4x8"), Rules(policy=Policy.FAIR_SHARE))
    record = play.run()
    assert not play.engine.world.violations
    assert max(record.busy_slots) <= 32
