"""The ladder behind `least_attained`: levels by order of magnitude, and when a run reaches the next."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.sched.policies.order import climbs_at, current_level, known_level, level

some_moments = st.floats(1.0, 2e9)
some_amounts = st.floats(0.0, 1e12)


@pytest.mark.parametrize(
    ("attained", "expected"), [(0, 0), (359, 0), (360, 360), (3599, 360), (3600, 3600), (4e5, 360_000)]
)
def test_a_rung_is_ten_times_the_one_below(attained, expected):
    assert level(attained) == expected


@pytest.mark.parametrize(("left", "expected"), [(-5, 0), (0, 0), (360, 360), (719, 360), (720, 720)])
def test_what_is_left_by_a_time_limit_is_told_more_finely_on_the_same_scale(left, expected):
    assert known_level(left) == expected


@given(some_amounts, some_amounts)
def test_more_is_never_on_a_lower_rung(one, other):
    less, more = sorted((one, other))
    assert level(less) <= level(more)
    assert known_level(less) <= known_level(more)
    assert level(more) <= more
    assert known_level(more) <= more < max(360.0, 2 * known_level(more))


@given(some_amounts, st.integers(1, 100_000), some_moments, st.floats(0, 1e6))
def test_at_the_moment_it_is_told_to_climb_a_run_has_climbed(before, slots, since, held_s):
    """Otherwise a pass at that moment would decide nothing, and ask to be called at the same moment again."""
    now = since + held_s
    at = climbs_at(before, slots, since=since, now=now)
    assert at > now
    if at < inf:
        lower = current_level(before, slots, since=since, now=now)
        assert current_level(before, slots, since=since, now=at) > lower


def test_a_run_without_slots_never_climbs():
    assert climbs_at(0.0, 0, since=0.0, now=10.0) == inf


def test_slots_held_count_as_they_are_used():
    assert current_level(0.0, 8, since=1000.0, now=1044.0) == 0
    assert current_level(0.0, 8, since=1000.0, now=1045.0) == 360
    assert current_level(300.0, 8, since=1000.0, now=1007.5) == 360, "on top of what earlier attempts used"
    assert climbs_at(300.0, 8, since=1000.0, now=1001.0) == 1007.5
