"""`priority` beside EASY backfill with the same knowledge, and with time limits beside none."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from benchmarks.easy import easy

from tarmac.simulator.jobs import Job
from tarmac.simulator.playing import Play, Rules
from tarmac.simulator.shapes import shape_of, slots_of
from tarmac.simulator.traces import read_trace

DATA = Path(__file__).parents[2] / "data" / "traces"


def mean_s(jobs: tuple[Job, ...], shape: str, factor: float | None) -> float:
    """The mean completion time under `priority`."""
    cluster = shape_of(shape)
    assert cluster is not None
    record = Play(jobs, cluster, Rules(limit_factor=factor)).run()
    assert not record.never_fits
    return fmean(passage.completion_s for passage in record.passages.values())


def test_easy_starts_a_later_job_if_it_ends_in_time_or_leaves_enough() -> None:
    spec = [(0, 100, 3), (1, 50, 4), (2, 99, 1), (3, 90, 1)]
    jobs = [Job(id=str(at), name="", submitted_at=at, duration_s=took, slots=n) for at, took, n in spec]
    assert easy(jobs, 4, Rules(limit_factor=1.0)) == fmean([100.0, 149.0, 247.0, 90.0])
    assert easy(jobs, 5, Rules(limit_factor=1.0)) == fmean([100.0, 149.0, 99.0, 90.0])
    assert easy(jobs, 4, Rules()) == fmean([100.0, 149.0, 247.0, 237.0])


@pytest.mark.parametrize("factor", [None, 1.0, 1.5])
@pytest.mark.parametrize(
    ("file", "shape"),
    [("muri_excerpt.csv", "8x8"), ("philly_excerpt.csv", "8x8"), ("shockwave_excerpt.trace", "4x4")],
)
def test_priority_is_no_worse_than_easy_with_the_same_knowledge(
    file: str, shape: str, factor: float | None
) -> None:
    jobs, cluster = read_trace(str(DATA / file)).jobs, shape_of(shape)
    assert cluster is not None
    assert mean_s(jobs, shape, factor) <= easy(jobs, slots_of(cluster), Rules(limit_factor=factor))


def test_time_limits_lower_the_mean_where_runs_last_long_beside_the_backfill_window() -> None:
    jobs = read_trace(str(DATA / "muri_excerpt.csv")).jobs
    unlimited_s = mean_s(jobs, "8x8", None)
    assert all(mean_s(jobs, "8x8", factor) < unlimited_s for factor in (1.0, 1.5, 3.0))
