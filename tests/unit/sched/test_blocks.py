"""Blocks of time for interruptible runs (I12): shares, tiers, credit, floor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from facts import candidate, gang, holding
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Share
from tarmac.sched.policies import blocks
from tarmac.sched.policies.blocks import Member, Tier

HOUR_S = 3600.0
RULES = Pool(cluster="local", period_s=2 * HOUR_S, floor_s=300.0)
START = 100 * 2 * HOUR_S
"""When a period begins."""


def queued(run_id, share=None, **changes):
    changes = {"submitted_at": START - 100, "queued_at": START - 100, **changes}
    return Member(candidate(run_id, gang(1), mode=Mode.INTERRUPTIBLE, share=share, **changes))


def running(run_id, since, share=None, **changes):
    grace_s = changes.pop("grace_s", 30.0)
    held = holding(
        run_id,
        {"n1": [0]},
        mode=Mode.INTERRUPTIBLE,
        share=share,
        granted_at=since,
        started_at=since,
        **{"submitted_at": START - 100, **changes},
    )
    held = replace(held, grace_s=grace_s)
    return Member(held.candidate, held)


def share(allotted_s=600.0, **changes):
    return Share(**{"period_at": START, "allotted_s": allotted_s, "rank": 0, **changes})


def grants(members, now=START, rules=RULES):
    return {grant.run_id: grant.share for grant in blocks.grants(members, rules, now)}


def test_i12_periods_begin_at_whole_multiples():
    assert blocks.period_at(RULES, START) == START
    assert blocks.period_at(RULES, START + 7199) == START
    assert blocks.period_end(RULES, START + 7199) == START + 7200
    odd = replace(RULES, period_s=0.1)
    for step in range(10_000):
        end = blocks.period_end(odd, step * 0.1)
        assert blocks.period_at(odd, end) == pytest.approx(end), "a pass at the end is in the next period"


def test_i12_all_who_were_there_get_blocks_alike_that_fit_one_after_another():
    made = grants([queued("a"), queued("b"), queued("late", submitted_at=START + 1)], now=START + 60)
    assert made.keys() == {"a", "b"}
    assert made["a"].allotted_s == made["b"].allotted_s == (7200 - 60) / 2 - 30
    assert {item.period_at for item in made.values()} == {START}
    assert {item.rank for item in made.values()} == {0, 1}


@pytest.mark.parametrize(("grace_s", "set_aside_s"), [(10.0, 10.0), (120.0, 120.0), (5000.0, 360.0)])
def test_i12_a_block_leaves_time_to_hand_over(grace_s, set_aside_s):
    members = [running(name, START - 50, grace_s=grace_s) for name in ("a", "b")]
    assert grants(members)["a"].allotted_s == 3600 - set_aside_s


def test_i12_those_who_hold_slots_go_first_then_those_who_wait_longest():
    members = [
        queued("waits", queued_at=START - 10),
        queued("waits-longer", queued_at=START - 20),
        running("runs", START - 50),
    ]
    ranks = {run_id: item.rank for run_id, item in grants(members).items()}
    assert ranks == {"runs": 0, "waits-longer": 1, "waits": 2}


def test_i12_below_the_floor_only_those_are_served_who_wait_longest():
    rules = replace(RULES, floor_s=2400.0)
    members = [queued(f"q{wait}", queued_at=START - wait) for wait in (10, 20, 30)]
    made = grants([*members, running("runs", START - 50)], rules=rules)
    served = {run_id for run_id, item in made.items() if item.allotted_s}
    assert served == {"q10", "q20", "q30"}, "who holds slots has waited least"
    assert made["q10"].allotted_s == 2400 - 30
    assert made["runs"].allotted_s == 0


def test_i12_due_once_a_period_and_only_for_those_who_were_there():
    assert blocks.due([queued("a")], RULES, START)
    assert not blocks.due([queued("a", submitted_at=START)], RULES, START), "a newcomer waits"
    assert not blocks.due([queued("a"), queued("b", share())], RULES, START + 5), "shared out already"
    assert blocks.due([queued("b", share())], RULES, START + 7200)
    assert not blocks.due([], RULES, START)


def test_i12_what_was_promised_and_not_served_is_credit_of_at_most_a_period():
    cut = queued("cut", share(600.0, used_s=200.0))
    both = queued("both", share(600.0, used_s=100.0, credit_s=50.0))
    paid = queued("paid", share(600.0, used_s=900.0, credit_s=100.0))
    never = queued("never", share(7000.0, credit_s=7000.0))
    held = running("held", START + 7100, share(600.0))
    made = grants([cut, both, paid, never, held], now=START + 7200)
    assert {run_id: item.credit_s for run_id, item in made.items()} == {
        "cut": 400.0,
        "both": 550.0,
        "paid": 0.0,
        "never": 7200.0,
        "held": 500.0,
    }


@pytest.mark.parametrize(
    ("given_share", "expected"),
    [
        (None, Tier.REST),
        (share(600.0), Tier.OWED),
        (share(600.0, used_s=599.0), Tier.OWED),
        (share(600.0, used_s=600.0), Tier.REST),
        (share(600.0, used_s=600.0, credit_s=5.0), Tier.CREDIT),
        (share(600.0, used_s=606.0, credit_s=5.0), Tier.REST),
        (share(0.0, credit_s=5.0), Tier.CREDIT),
        (share(600.0, period_at=START - 7200), Tier.REST),
    ],
)
def test_i12_tiers(given_share, expected):
    assert blocks.tier(queued("a", given_share), RULES, START + 1000) is expected


def test_i12_a_running_attempt_counts_from_the_beginning_of_the_period():
    member = running("a", START - 500, share(600.0))
    assert blocks.tier(member, RULES, START + 599) is Tier.OWED
    assert blocks.tier(member, RULES, START + 600) is Tier.REST
    assert blocks.changes_at(member.holding, RULES, START + 100) == START + 600
    assert blocks.changes_at(member.holding, RULES, START + 700) == float("inf")


def test_i12_the_order_cut_blocks_first_then_rank_then_credit_then_who_used_least():
    members = [
        queued("third", share(rank=2)),
        queued("cut", share(rank=3, used_s=100.0)),
        queued("first", share(rank=0)),
        queued("credit", share(rank=1, used_s=600.0, credit_s=50.0)),
        queued("used-most", share(used_s=900.0)),
        queued("newcomer", None),
    ]
    now = START + 1000
    order = sorted(members, key=lambda member: blocks.order_key(member, RULES, now))
    assert [member.candidate.run_id for member in order] == [
        "cut",
        "first",
        "third",
        "credit",
        "newcomer",
        "used-most",
    ]


@pytest.mark.parametrize(
    ("given_share", "expected_s"),
    [(share(600.0, used_s=250.0), 350.0), (share(600.0, used_s=610.0, credit_s=50.0), None), (None, None)],
)
def test_i12_the_time_told_to_a_run_is_what_is_left_of_its_block(given_share, expected_s):
    """Nothing else is promised: credit and idle time last until somebody comes whose block it is."""
    member = queued("a", given_share)
    assert blocks.allotted_s(member.candidate, RULES, START + 1000) == expected_s


def test_i12_a_slow_start_and_a_slow_end_use_nothing_of_a_block():
    slow = running("slow", START - 50, share(600.0)).holding
    slow = replace(slow, started_at=START + 40, granted_at=START + 10)
    assert Member(slow.candidate, slow).used_s(START, START + 100) == 60
    assert blocks.changes_at(slow, RULES, START + 100) == START + 640
    skewed = replace(slow, started_at=START - 3000)
    assert Member(skewed.candidate, skewed).used_s(START, START + 100) == 90, (
        "a node with a clock that is late"
    )
    unborn = replace(slow, started_at=None)
    assert Member(unborn.candidate, unborn).used_s(START, START + 100) == 0
    assert Member(unborn.candidate, unborn).used_s(START, START + 200) == 70, "setup of its own counts"
    leaving = replace(slow, leaving=True, leave_requested_at=START + 60)
    assert Member(leaving.candidate, leaving).used_s(START, START + 100) == 20


def test_i12_a_promise_outlasts_its_period():
    held = replace(running("a", START - 50, share(600.0)).holding, allotted_s=300.0)
    assert blocks.promised_until(held) == START + 250
    assert blocks.promised_until(replace(held, allotted_s=None)) == float("-inf")


def test_i12_who_was_cut_comes_first_until_it_has_had_more():
    """Though others have waited longer, and though a whole period went by without any of them."""
    waits = queued("waits", share(rank=1), queued_at=START - 500)
    cut = queued("cut", share(rank=0, used_s=100.0), queued_at=START - 10)
    made = grants([waits, cut], now=START + 7200)
    assert (made["cut"].rank, made["waits"].rank) == (0, 1)
    again = [replace_share(waits, made["waits"]), replace_share(cut, made["cut"])]
    later = grants(again, now=START + 2 * 7200)
    assert (later["cut"].rank, later["waits"].rank) == (0, 1)


def test_i12_below_the_floor_who_was_cut_has_the_rest_of_its_block_and_who_waits_the_next():
    """Period and floor are alike, so one run is served in each."""
    rules = replace(RULES, period_s=300.0, floor_s=300.0)
    cut = queued("cut", share(300.0, period_at=START - 300, used_s=240.0), queued_at=START - 60)
    waits = queued("waits", share(0.0, period_at=START - 300, rank=1), queued_at=START - 300)
    made = grants([cut, waits], rules=rules)
    assert (made["cut"].rank, made["waits"].rank) == (0, 1)
    assert made["cut"].allotted_s - made["cut"].used_s == 60.0
    assert made["waits"].allotted_s == 300.0 - (60.0 + 30.0) - 0.1 * 210.0
    assert blocks.allotted_s(replace_share(cut, made["cut"]).candidate, rules, START) == 60.0


def replace_share(member, given):
    return Member(replace(member.candidate, share=given))


def test_i12_time_is_set_aside_for_credit_so_that_it_is_paid_though_blocks_fill_the_period():
    cut = queued("cut", share(3000.0, used_s=2000.0))
    made = grants([cut, queued("kept", share(3000.0, used_s=3000.0))], now=START + 7200)
    assert made["cut"].credit_s == 1000.0
    assert made["cut"].allotted_s == made["kept"].allotted_s == (7200 - 1000 - 30) / 2 - 30
    alike = [queued(name, share(3000.0, used_s=2000.0)) for name in ("a", "b")]
    assert grants(alike, now=START + 7200)["a"].allotted_s == 3570, "all are owed the same: nobody is ahead"


@given(
    st.integers(1, 60),
    st.floats(60.0, 7200.0),
    st.floats(0.0, 600.0),
    st.floats(0.0, 7000.0),
)
def test_i12_blocks_never_overfill_a_period_nor_fall_below_the_floor(count, floor_s, grace_s, late_s):
    rules = replace(RULES, floor_s=floor_s)
    members = [running(f"r{number}", START - 50, grace_s=grace_s) for number in range(count)]
    made = [item for item in grants(members, now=START + late_s, rules=rules).values() if item.allotted_s]
    left_s = 7200 - late_s
    assert sum(item.allotted_s for item in made) <= left_s + 1e-6
    each_s = left_s / len(made)
    assert each_s >= min(floor_s, left_s) - 1e-6
    assert all(item.allotted_s >= 0.9 * each_s - 1e-6 for item in made)
    assert len(made) == count or each_s < 2 * floor_s, "nobody is left out who could be served"
