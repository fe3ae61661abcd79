"""Points in columns: what counts of several attempts, and fewer of them that draw the same curve."""

from __future__ import annotations

from math import nan

import pytest

from tarmac.model.metrics import NO_STEP, Points, between, effective, points_of, thinned


def points(*rows: tuple[int | None, float]) -> Points:
    found = Points()
    for step, value in rows:
        found.add(step, float(step or 0), value)
    return found


def rows(found: Points) -> list[tuple[int, float]]:
    return list(zip(found.steps, found.values, strict=True))


def test_points_survive_as_bytes() -> None:
    found = points((1, 0.5), (None, -1.0), (2**63 - 1, 1e300))
    assert points_of(found.to_bytes()) == found
    assert points_of(b"") == Points()
    with pytest.raises(ValueError, match="25 bytes"):
        points_of(b"x" * 25)


def test_a_newer_attempt_supersedes_what_came_from_its_first_step_on() -> None:
    first = points((1, 1.0), (2, 2.0), (3, 3.0))
    again = points((2, 20.0))
    assert rows(effective([first, again])) == [(1, 1.0), (2, 20.0)]
    assert rows(effective([first, again, points((1, 10.0))])) == [(1, 10.0)], "also of all before it"
    assert rows(effective([first, points(), points((4, 4.0))])) == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.0)]
    assert rows(effective([first, points((None, 9.0))])) == [*rows(first), (NO_STEP, 9.0)]
    assert rows(effective([])) == []


def test_fewer_points_keep_the_first_the_last_and_every_spike() -> None:
    many = points(*((step, 1.0) for step in range(10_000)))
    many.values[4321], many.values[7654] = 100.0, -100.0
    few = thinned(many, 300)
    assert len(few) <= 300
    assert {(0, 1.0), (4321, 100.0), (7654, -100.0), (9999, 1.0)} <= set(rows(few))
    assert list(few.steps) == sorted(few.steps)
    assert thinned(few, 300) is few


def test_a_range_of_points_reaches_the_nearest_on_each_side() -> None:
    sparse = points((0, 0.0), (10, 1.0), (20, 2.0), (30, 3.0))
    assert rows(between(sparse, sparse.steps, 12, 18)) == [(10, 1.0), (20, 2.0)]
    assert rows(between(sparse, sparse.steps, 10, 10)) == [(0, 0.0), (10, 1.0), (20, 2.0)]
    assert rows(between(sparse, sparse.times, first=25)) == rows(between(sparse, sparse.steps, first=25))
    assert between(sparse, sparse.steps) is sparse
    assert rows(between(points(), sparse.steps, 1, 2)) == []


def test_fewer_points_keep_one_that_is_not_finite() -> None:
    many = points(*((step, float(step)) for step in range(1000)))
    many.values[500] = nan
    few = thinned(many, 100)
    assert 500 in few.steps
    assert len(few) <= 100
