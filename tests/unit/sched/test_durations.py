"""How long runs take, learnt from those that ended."""

from __future__ import annotations

from statistics import median

import pytest

from facts import candidate, gang
from tarmac.sched import Durations, Finished
from tarmac.sched.estimate.durations import ENOUGH, MOST_CLASSES, MOST_SAMPLES


def finished(ran_s: float, **changes) -> Finished:
    base = {"owner": "ada", "project": "default", "name": "", "slots": 1, "time_limit_s": None}
    return Finished(ran_s=ran_s, **(base | changes))


def known(*runs: Finished) -> Durations:
    durations = Durations()
    for run in runs:
        durations.add(run)
    return durations


def run(**changes):
    return candidate("r", gang(changes.pop("slots", 1)), **changes)


def test_nothing_is_said_before_anything_is_known():
    assert not Durations()
    assert Durations().remaining_s(run()) is None


def test_the_middle_of_those_alike_is_told():
    durations = known(*(finished(float(length)) for length in (100, 200, 300, 400, 500, 600, 700)))
    assert durations.remaining_s(run()) == 400
    assert durations.remaining_s(run(), share=0.9) == 700
    assert durations.remaining_s(run(), share=0.0) == 100


def test_a_run_that_lasts_already_is_compared_with_those_that_lasted_longer():
    lengths = [10.0] * 50 + [1000.0] * ENOUGH
    durations = known(*(finished(length) for length in lengths))
    assert durations.remaining_s(run()) == 10
    assert durations.remaining_s(run(), elapsed_s=60) == 940


def test_what_has_outlasted_everything_is_taken_to_last_as_long_again():
    durations = known(*(finished(10.0) for _ in range(20)))
    assert durations.remaining_s(run(), elapsed_s=500) == 500
    assert durations.remaining_s(run(), elapsed_s=500, share=0.75) == 1500


@pytest.mark.parametrize(
    ("alike", "other", "asked"),
    [
        pytest.param({"name": "eval"}, {"name": "train"}, {"name": "eval"}, id="name"),
        pytest.param({"slots": 8}, {"slots": 1}, {"slots": 8}, id="slots"),
        pytest.param({"owner": "bob"}, {"owner": "ada"}, {"owner": "bob"}, id="owner"),
        pytest.param(
            {"owner": "bob", "slots": 8},
            {"owner": "bob", "slots": 1},
            {"owner": "bob", "slots": 8},
            id="both",
        ),
    ],
)
def test_the_likeness_that_tells_runs_apart_is_gone_by(alike, other, asked):
    durations = Durations()
    for _ in range(40):
        durations.add(finished(10.0, **other))
        durations.add(finished(5000.0, **alike))
    assert durations.remaining_s(run(**asked)) == 5000


def test_a_likeness_that_misleads_is_learnt_to_be_ignored():
    """Runs of a name are all over the place here, but runs of a size are not."""
    durations = Durations()
    for number in range(400):
        slots = 1 + number % 2
        durations.add(finished(1000.0 * slots, name=f"n{number // 8}", slots=slots, owner="ada"))
    assert durations.remaining_s(run(name="n49", slots=1)) == 1000


def test_how_much_of_their_limit_runs_use_is_learnt():
    durations = known(*(finished(float(60 * n), time_limit_s=120.0 * n) for n in range(1, 60)))
    assert durations.remaining_s(run(time_limit_s=10_000.0)) == pytest.approx(5_000)
    assert durations.remaining_s(run(time_limit_s=10_000.0), elapsed_s=2_000) == pytest.approx(3_000)


def test_the_latest_runs_count_and_memory_is_bounded():
    durations = known(*(finished(10.0, name="first") for _ in range(MOST_SAMPLES)))
    assert durations.remaining_s(run(name="first")) == 10
    for number in range(MOST_SAMPLES):
        durations.add(finished(900.0, name=f"n{number}", owner=f"o{number}"))
    for number in range(MOST_CLASSES):
        durations.add(finished(900.0, name="x", owner=f"p{number}"))
    assert durations.remaining_s(run(owner="new")) == 900
    assert durations.remaining_s(run(name="first")) == 900, "its classes are forgotten"


def test_shares_spread_evenly_predict_the_spread():
    lengths = [float(2**power) for power in range(4, 14)] * 10
    durations = known(*(finished(length) for length in lengths))
    told = [durations.remaining_s(run(), share=(step + 0.5) / 100) for step in range(100)]
    assert median(told) == pytest.approx(median(lengths), rel=1)
    assert sum(told) == pytest.approx(sum(lengths), rel=0.01)


SHORT, LONG = [100.0] * 50, [10_000.0] * 50


def test_a_guess_is_the_usage_of_all_per_end():
    """Half of them end at 400 slot-seconds: until then each end costs 800, and later more."""
    durations = known(*(finished(length, slots=4) for length in SHORT + LONG))
    assert durations.guess_slot_s(run()) == 800
    assert durations.guess_slot_s(run(slots=8)) == 800, "usage counts, not width"
    assert durations.guess_slot_s(run(attained_slot_s=1_000.0)) == 39_000, "all others end there"


def test_a_run_close_to_the_end_of_those_alike_is_worth_finishing():
    durations = known(*(finished(length) for length in LONG))
    far, near = (durations.guess_slot_s(run(attained_slot_s=used)) for used in (1_000.0, 9_900.0))
    assert (far, near) == (9_000, 100)


def test_no_guess_is_made_from_a_few_runs_or_for_a_run_without_slots():
    durations = known(*(finished(100.0) for _ in range(ENOUGH - 1)))
    assert durations.guess_slot_s(run()) is None
    durations.add(finished(100.0))
    assert durations.guess_slot_s(run()) == 100
    assert durations.guess_slot_s(run(attained_slot_s=100.0)) is None, "it has outlived all of them"
    assert durations.guess_slot_s(run(slots=0)) is None


def test_ends_before_the_next_look_are_counted_together():
    """Runs that end within seconds do not make the guess of all others: it looks a tenth of an hour ahead."""
    durations = known(*(finished(length) for length in [1.0] * 10 + [400.0] * 90))
    assert durations.guess_slot_s(run()) == pytest.approx((10 * 1.0 + 90 * 400.0) / 100)


def test_a_guess_is_by_owner_or_name_only_where_these_predict():
    durations = Durations()
    for length in (*SHORT, *SHORT):
        durations.add(finished(length, name="eval"))
        durations.add(finished(100 * length, name="train"))
    assert durations.guess_slot_s(run(name="eval")) == 100
    assert durations.guess_slot_s(run(name="train")) == 10_000
    assert durations.guess_slot_s(run(name="new")) == 460, "each is allowed a tenth of a slot-hour"
    chance = Durations()
    for number, length in enumerate([100.0, 10_000.0, 10_000.0, 100.0] * 50):
        chance.add(finished(length, name=f"n{number % 2}"))
    assert chance.guess_slot_s(run(name="n0")) == chance.guess_slot_s(run(name="n1")) == 460
