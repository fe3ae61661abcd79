"""Measures of plays small enough to be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.model.cluster import Policy
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Share
from tarmac.model.run import Run
from tarmac.model.spec import RunSpec
from tarmac.sched import Estimate
from tarmac.sched.estimate.simulation import EstimateBasis
from tarmac.simulator.comparing import share_series
from tarmac.simulator.jobs import Job
from tarmac.simulator.measures import Estimates, PromiseBook, measures, percentile
from tarmac.simulator.playing import Play, Rules
from tarmac.simulator.record import Passage, Record
from tarmac.simulator.shapes import shape_of, slots_of
from tarmac.simulator.traces import read_trace

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def job(number: int, submitted_at: float, duration_s: float, slots: int, **more: object) -> Job:
    """A job of no user in particular."""
    made = {"id": str(number), "name": f"job{number}", "submitted_at": submitted_at}
    return Job(**made, duration_s=duration_s, slots=slots, **more)


def played(jobs: list[Job], shape: str) -> Record:
    """The record of a play in the order of submission."""
    cluster = shape_of(shape)
    assert cluster is not None
    return Play(jobs, cluster, Rules(policy=Policy.PRIORITY)).run()


QUEUE = [job(1, 0, 100, 4), job(2, 0, 50, 4), job(3, 100, 50, 2)]
"""One after the other on four slots: they end after 100, 150 and 200."""


def test_the_numbers_of_a_queue() -> None:
    found = measures(played(QUEUE, "1x4"), 4)
    assert found.completion_mean_s == pytest.approx((100 + 150 + 100) / 3)
    assert (found.completion_p50_s, found.completion_p99_s) == (100, 150)
    assert found.queueing_mean_s == pytest.approx((0 + 100 + 50) / 3)
    assert found.makespan_s == 200
    assert found.utilisation == pytest.approx((4 * 150 + 2 * 50) / 800)
    assert (found.ended, found.unfinished, found.preemptions, found.failed) == (3, 0, 0, 0)


def test_fairness_against_as_many_jobs_per_slot_as_the_trace_has() -> None:
    """Three jobs on one slot have a contention of three, whoever is there when."""
    record = played([job(1, 0, 100, 1), job(2, 0, 100, 1), job(3, 0, 25, 1)], "1x1")
    found = measures(record, 1)
    assert found.fairness.worst == pytest.approx(225 / (25 * 3))
    assert found.fairness.unfair_share == pytest.approx(1 / 3)


def test_fairness_by_life_counts_those_that_were_there() -> None:
    """The last one shares 200 seconds with two others, and has the slot to itself for its own 25."""
    record = played([job(1, 0, 100, 1), job(2, 0, 100, 1), job(3, 0, 25, 1)], "1x1")
    found = measures(record, 1)
    contention = (3 * 100 + 2 * 100 + 1 * 25) / 225
    assert found.fairness_by_life.worst == pytest.approx(225 / (25 * contention))


def test_where_there_is_room_nobody_is_treated_unfairly() -> None:
    found = measures(played([job(1, 0, 100, 1), job(2, 5, 10, 1)], "1x8"), 8)
    assert (found.fairness.worst, found.fairness.unfair_share) == (1.0, 0.0)
    assert (found.fairness_by_life.worst, found.fairness_by_life.unfair_share) == (1.0, 0.0)


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 2.0), (0.51, 3.0), (0.99, 4.0)])
def test_percentiles(share: float, value: float) -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], share) == value


def test_of_nothing_there_are_no_percentiles() -> None:
    assert percentile([], 0.5) is None


def test_series_are_averages_over_time() -> None:
    found = share_series(played(QUEUE, "1x4"), 4, steps=4)
    assert found.step_s == 50
    assert found.queued == (1.0, 1.0, 1.0, 0.0)
    assert found.utilisation == (1.0, 1.0, 1.0, 0.5)


def passage(started_at: float | None, **more: object) -> Passage:
    return Passage(job=job(1, 0, 10, 4, **more), run_id="r", submitted_at=0.0, started_at=started_at)


def estimate(start_at: float | None, latest_at: float | None = None) -> Estimate:
    return Estimate(run_id="r", start_at=start_at, latest_at=latest_at, basis=EstimateBasis.HISTORY)


def test_estimates_are_held_against_the_wait() -> None:
    made = Estimates()
    made.note(0, 0.0, estimate(90.0, 120.0))  # ten seconds early of a hundred
    made.note(1, 0.0, estimate(260.0, 150.0))  # sixty late of two hundred, and later than the latest
    made.note(2, 0.0, estimate(None))
    made.note(3, 0.0, estimate(5.0))  # it waited too little to be judged
    made.note(4, 0.0, estimate(5.0))  # it has not started
    passages = {0: passage(100.0), 1: passage(200.0), 2: passage(100.0), 3: passage(6.0), 4: passage(None)}
    found = made.accuracy(passages)
    assert (found.count, found.with_time) == (3, 2)
    assert found.error_share == pytest.approx((0.1 + 0.3) / 2)
    assert found.error_s == pytest.approx(35.0)
    assert found.in_time_share == 0.5


def test_shares_that_were_not_given_whole_are_told() -> None:
    """I12: of two promises in a period one is kept, and one is short by half."""
    book = PromiseBook(7200.0)
    share = Share(period_at=0.0, allotted_s=1000.0, rank=0)
    run = Run(
        id="r",
        spec=RunSpec(name="x", roles=()),
        user="ada",
        state=RunState.QUEUED,
        seq=1,
        created_at=0.0,
        share=share,
    )
    kept, short = passage(0.0), passage(0.0)
    kept.intervals += [(0.0, 800.0), (7000.0, 9000.0)]
    short.intervals += [(0.0, 500.0), (7200.0, 9000.0)]
    book.note([(0, run), (1, run)])
    found = book.promises({0: kept, 1: short}, slots=16, until=9000.0)
    assert found is not None
    assert (found.granted, found.kept, found.least_share) == (2, 1, 0.5)
    assert found.one_at_a_time == pytest.approx(4 / 16)
    assert book.promises({0: kept, 1: short}, slots=16, until=7000.0) is None, "the period is not over"


def test_interruptible_runs_get_what_they_were_promised_side_by_side() -> None:
    """I12: gangs of 1 to 48 slots on 72 keep twice as many slots busy as one block after the other would."""
    trace = read_trace(str(BENCHMARKS / "interruptible_72.csv"))
    cluster = shape_of("12x6")
    assert cluster is not None
    play = Play(trace.jobs, cluster, Rules(policy=Policy.PRIORITY))
    record = play.run()
    found = measures(record, slots_of(cluster), promises=play.promises)
    assert found.promises is not None
    assert found.promises.kept == found.promises.granted > 20
    assert found.utilisation > 2 * found.promises.one_at_a_time
