"""The ladder behind `least_attained`: levels by order of magnitude, and when a run reaches the next."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import candidate, gang
from tarmac.model.cluster import LOCAL_CLUSTER, Policy, Pool
from tarmac.sched.policies.order import (
    by_least_attained,
    climbs_at,
    current_level,
    guessed_slot_s,
    known_level,
    level,
)

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


@given(some_amounts, st.integers(1, 100_000), some_moments, st.floats(0, 1e6), some_amounts)
def test_at_the_moment_it_is_told_to_climb_a_run_has_climbed(before, slots, since, held_s, guess):
    """Otherwise a pass at that moment would decide nothing, and ask to be called at the same moment again."""
    now = since + held_s
    at = climbs_at(before, slots, since=since, now=now, least=guess)
    assert at > now
    if at < inf:
        lower = current_level(before, slots, since=since, now=now, least=guess)
        assert current_level(before, slots, since=since, now=at, least=guess) > lower


def test_a_run_without_slots_never_climbs():
    assert climbs_at(0.0, 0, since=0.0, now=10.0) == inf


def test_slots_held_count_as_they_are_used():
    assert current_level(0.0, 8, since=1000.0, now=1044.0) == 0
    assert current_level(0.0, 8, since=1000.0, now=1045.0) == 360
    assert current_level(300.0, 8, since=1000.0, now=1007.5) == 360, "on top of what earlier attempts used"
    assert climbs_at(300.0, 8, since=1000.0, now=1001.0) == 1007.5


RULES = Pool(cluster=LOCAL_CLUSTER, policy=Policy.LEAST_ATTAINED)


def test_a_guess_counts_until_a_run_has_used_more():
    assert current_level(1e5, 1, since=0.0, now=10.0, least=4e6) == 3_600_000
    assert climbs_at(1e5, 1, since=0.0, now=10.0, least=4e6) == 36e6 - 1e5
    assert current_level(5e6, 1, since=0.0, now=10.0, least=400.0) == 3_600_000, "it has outlived it"


@given(st.floats(0.0, 28_799.0), some_amounts, st.floats(36_000.0, 1e9))
def test_a_wrong_guess_puts_no_run_behind_one_that_has_used_ten_slot_hours(used, guess, more):
    """Two queues split at 8 slot-hours would serve it first as well."""
    guessed = candidate("r", gang(8), attained_slot_s=used, guess_slot_s=guess)
    assert guessed_slot_s(guessed) <= 28_800
    other = candidate("a", gang(1), attained_slot_s=more)
    assert by_least_attained(guessed, RULES, 0.0) < by_least_attained(other, RULES, 0.0)


def test_a_time_limit_counts_instead_of_a_guess():
    limited = candidate("r", gang(1), time_limit_s=720.0)
    assert by_least_attained(limited, RULES, 0.0)[0] == 720
