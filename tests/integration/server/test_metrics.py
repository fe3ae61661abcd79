"""The metrics of runs over HTTP: taken as they come, compared across runs."""

from __future__ import annotations

from functools import partial

import pytest

from served import HELLO, Served
from tarmac import api
from tarmac.model.errors import InvalidInput, NotFound

LINES = "".join(f'{{"at": {step}.5, "step": {step}, "metrics": {{"loss": {step}}}}}\n' for step in range(100))


def reporting(plane: Served, lines: str) -> str:
    """The id of a run that has reported these lines."""
    client = plane.client()
    run = client.submit(HELLO).id
    plane.turn()
    plane.turn()
    node = client.attempts(run)[0].nodes[0]
    plane.engine.write(f"{run}.1", f"nodes/{node}/reports.jsonl", lines.encode())
    plane.turn()
    return run


def test_runs_are_compared_by_what_they_reported(plane: Served) -> None:
    one = reporting(plane, LINES)
    other = reporting(plane, '{"at": 1, "step": 7, "group": "validation", "metrics": {"loss": "nan"}}\n')
    found = plane.client().metrics(other, one)
    assert [(series.run, series.group, series.name) for series in found] == [
        (other, "validation", "loss"),
        (one, "training", "loss"),
    ]
    assert (found[0].last, found[0].low, found[0].points) == ("nan", None, None)
    assert found[1] == api.MetricSeries(
        run=one,
        run_name="hello",
        group="training",
        name="loss",
        rank=0,
        count=100,
        last=99.0,
        last_step=99,
        last_at=99.5,
        low=0.0,
        low_step=0,
        high=99.0,
        high_step=99,
        points=None,
    )


def test_points_are_as_many_as_were_asked_for(plane: Served) -> None:
    client = plane.client()
    run = reporting(plane, LINES + '{"at": 200, "metrics": {"other": 1}}\n')
    [series] = client.metrics(run, names=["loss"], points=1000)
    assert series.points == api.MetricPoints(
        steps=list(range(100)),
        times=[step + 0.5 for step in range(100)],
        values=[float(step) for step in range(100)],
        total=100,
    )
    [series] = client.metrics(run, names=["loss"], group="training", points=20)
    assert series.points is not None
    assert series.points.steps[0::100] == [0]
    assert 2 < len(series.points.steps) <= 20
    assert series.points.total == 100
    [other] = client.metrics(run, names=["other"], points=2)
    assert other.points == api.MetricPoints(steps=[None], times=[200.0], values=[1.0], total=1)
    assert client.metrics(run, group="validation") == []


def test_a_range_has_its_points_and_the_nearest_on_each_side(plane: Served) -> None:
    run = reporting(plane, LINES)
    ask = partial(plane.client()._call, api.METRICS)

    def steps(**limits: float) -> list[int | None]:
        query = api.MetricsQuery(run=[run], points=1000, **limits)  # type: ignore[arg-type]
        [series] = ask(query=query)
        assert series.points is not None
        assert series.points.total == len(series.points.steps)
        return list(series.points.steps)

    assert steps(first_step=40, last_step=42) == [39, 40, 41, 42, 43]
    assert steps(first_step=98) == [97, 98, 99]
    assert steps(last_step=0) == [0, 1]
    assert steps(first_step=500) == [99], "beyond the end"
    start = plane.client().run(run).started_at
    assert start is not None
    assert steps(first_s=40 - start, last_s=42 - start) == [39, 40, 41, 42], "seconds since the run started"


def test_the_lowest_rank_speaks_for_the_others(plane: Served) -> None:
    lines = "".join(f'{{"at": 1, "rank": {rank}, "metrics": {{"loss": {rank}}}}}\n' for rank in (3, 1, 2))
    run = reporting(plane, lines)
    assert [series.rank for series in plane.client().metrics(run)] == [1]
    assert [series.rank for series in plane.client().metrics(run, every_rank=True)] == [1, 2, 3]


def test_a_name_that_was_not_reported_is_an_error_that_names_the_nearest(plane: Served) -> None:
    run = reporting(plane, LINES)
    with pytest.raises(NotFound, match="no metric 'los'") as refusal:
        plane.client().metrics(run, names=["los"])
    assert "loss" in (refusal.value.hint or "")
    with pytest.raises(NotFound):
        plane.client().metrics("nothing")
    with pytest.raises(InvalidInput):
        plane.client().metrics(run, points=1)


def test_more_points_than_an_answer_has_room_for_are_refused(plane: Served) -> None:
    run = reporting(plane, LINES + '{"at": 200, "metrics": {"other": 1}}\n')
    with pytest.raises(InvalidInput, match="1,000,000 in all are allowed"):
        plane.client().metrics(run, points=600_000)
