"""What users have used of late, counted without touching anything as time goes by."""

from __future__ import annotations

from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.sched.policies.fairness import Account

DAY_S = 86_400.0
NOW = 1_700_000_000.0


def test_what_was_used_counts_half_after_a_half_life():
    account = Account(7 * DAY_S)
    account.add(1000.0, at=NOW)
    assert account.used_slot_s(NOW) == pytest.approx(1000)
    assert account.used_slot_s(NOW + 7 * DAY_S) == pytest.approx(500)
    assert account.used_slot_s(NOW + 70 * DAY_S) == pytest.approx(1000 / 1024)


def test_records_of_different_times_add_up():
    account = Account(DAY_S)
    account.add(100.0, at=NOW - DAY_S)
    account.add(100.0, at=NOW)
    assert account.used_slot_s(NOW) == pytest.approx(150)


def test_a_holding_counts_up_to_now_and_fades_as_it_goes():
    account = Account(DAY_S)
    account.begin(8, at=NOW)
    assert account.used_slot_s(NOW) == pytest.approx(0, abs=1e-2)
    assert account.used_slot_s(NOW + 60) == pytest.approx(480, rel=1e-3)
    whole_days = account.used_slot_s(NOW + 30 * DAY_S)
    assert whole_days == pytest.approx(8 * DAY_S / log(2), rel=1e-6), "what goes in is what fades away"


def test_what_is_taken_back_leaves_nothing_behind():
    account = Account(DAY_S)
    account.begin(3 / 7, at=NOW)
    account.begin(5, at=NOW + 0.3)
    account.end(3 / 7, at=NOW)
    account.end(5, at=NOW + 0.3)
    assert account.empty
    assert account.used_slot_s(NOW + 1e6) == 0


@given(
    st.lists(st.tuples(st.floats(0, 1e9), st.floats(0, 1e7)), max_size=10),
    st.lists(st.tuples(st.floats(0.01, 1e5), st.floats(0, 1e7)), max_size=10),
    st.sampled_from([60.0, 3600.0, 7 * DAY_S]),
    st.randoms(use_true_random=False),
)
def test_the_order_of_the_facts_does_not_matter(records, holdings, half_life_s, shuffler):
    """A ledger that was kept and one that was made from its snapshot compare exactly alike."""

    def used(records, holdings, extra):
        account = Account(half_life_s)
        for slot_s, ago_s in records:
            account.add(slot_s, at=NOW - ago_s)
        for rate, ago_s in (*extra, *holdings):
            account.begin(rate, at=NOW - ago_s)
        for rate, ago_s in extra:
            account.end(rate, at=NOW - ago_s)
        return account.used_slot_s(NOW)

    mixed_records, mixed_holdings = list(records), list(holdings)
    shuffler.shuffle(mixed_records)
    shuffler.shuffle(mixed_holdings)
    assert used(records, holdings, [(1.5, 77.7)]) == used(mixed_records, mixed_holdings, [])
