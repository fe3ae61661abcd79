"""Whole lives of a small cluster: no run starves, none is preempted without need, none swaps for ever."""

from __future__ import annotations

from collections import Counter, defaultdict

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from examples import examples
from facts import NOW, candidate, gang, nodes
from living import Living
from tarmac.model.cluster import Policy, Pool
from tarmac.model.codec import replace

RULES = Pool(cluster="local", preemption=True, guaranteed_s=300.0, period_s=7200.0)

WHOLE_LIVES = settings(
    max_examples=examples(30),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    print_blob=True,
)
"""Nothing is shrunk: a life takes 10 ms or more, and what fails would be lived thousands of times."""

POLICIES = list(Policy)

some_submissions = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 2, 3, 4, 6, 8]),
        st.integers(0, 6000),
        st.sampled_from([20.0, 100.0, 700.0, 2500.0, 5000.0]),
        st.integers(-1, 1),
        st.sampled_from(["ada", "grace", "alan"]),
        st.booleans(),
    ),
    min_size=2,
    max_size=14,
)


def life_of(submissions, rules, **more):
    runs = [
        (
            NOW + delay_s,
            candidate(
                f"r{number}",
                gang(slots),
                priority=priority,
                owner=owner,
                time_limit_s=1.5 * duration_s if limited else None,
            ),
            duration_s,
        )
        for number, (slots, delay_s, duration_s, priority, owner, limited) in enumerate(submissions)
    ]
    return Living(nodes(2, 4), rules, runs, **more)


@pytest.mark.parametrize("policy", POLICIES)
@given(some_submissions, st.booleans(), st.sampled_from([0.0, 20.0]))
@WHOLE_LIVES
def test_every_run_ends_in_bounded_time_under_every_policy(policy, submissions, preemption, leave_s):
    """Finite load is worked off: nobody starves, no preempting for ever, and no longer than one at a time."""
    rules = replace(RULES, policy=policy, preemption=preemption)
    life = life_of(submissions, rules, leave_s=leave_s).run()
    assert len(life.ended) == len(submissions)
    one_at_a_time_s = sum(duration_s for _, _, duration_s, *_ in submissions) + 6000
    lost_s = leave_s * len(life.preemptions)
    assert max(life.ended.values()) - NOW <= one_at_a_time_s + lost_s + 700 * len(submissions)


ABOUT_TO_BE_KEPT = [
    *[(1, 0, 20.0, 0, "ada", False)] * 6,
    (1, 0, 2500.0, 0, "alan", False),
    (1, 418, 700.0, 0, "grace", False),
    (2, 38, 700.0, 0, "ada", False),
    (2, 335, 100.0, 0, "grace", False),
    (3, 160, 700.0, 0, "alan", False),
    (4, 181, 20.0, 0, "grace", False),
    (6, 41, 20.0, 0, "alan", False),
    (6, 98, 20.0, 0, "grace", False),
]
"""Found by the test below: r11 preempted r10 a moment before both nodes were kept for r13."""

KEPT_WITHOUT_A_WAKE_UP = [
    (3, 0, 700.0, 0, "grace", True),
    (3, 2158, 100.0, 0, "alan", False),
    (4, 230, 100.0, 0, "grace", False),
    (4, 80, 2500.0, 0, "alan", False),
    (4, 0, 5000.0, 0, "grace", True),
    (1, 280, 5000.0, 0, "grace", False),
    (2, 0, 2500.0, 0, "alan", False),
    (1, 791, 100.0, 0, "alan", True),
    (1, 386, 20.0, 0, "grace", True),
    (1, 332, 700.0, 0, "alan", False),
    (3, 0, 700.0, 0, "grace", True),
    (4, 129, 2500.0, 0, "grace", False),
    (8, 116, 20.0, 0, "grace", False),
]
"""Seven slots of eight stood idle for r12 until r1 came, as nobody was told when a guarantee ended."""


@pytest.mark.parametrize("policy", POLICIES)
@given(some_submissions, st.sampled_from([0.0, 20.0]))
@example(ABOUT_TO_BE_KEPT, 20.0)
@example(KEPT_WITHOUT_A_WAKE_UP, 20.0)
@WHOLE_LIVES
def test_guarantees_hold_nothing_is_preempted_in_vain_and_nobody_swaps_for_ever(policy, submissions, leave_s):
    rules = replace(RULES, policy=policy)
    life = life_of(submissions, rules, leave_s=leave_s).run()
    for at, preemption, held in life.preemptions:
        assert at - held.started_at >= rules.guaranteed_s - 1e-6
        assert preemption.for_run_id is not None
        assert used_in_time(life, at), preemption
    swaps = Counter((item.for_run_id, item.run_id) for _, item, _ in life.preemptions)
    if policy is Policy.PRIORITY:
        assert not any((victim, other) in swaps for other, victim in swaps), "the order is strict"
    ran_s = defaultdict(float)
    for stay in life.stays:
        ran_s[stay.run_id] += stay.ended_at - stay.began_at
    for (other, victim), times in swaps.items():
        assert times <= 1 + ran_s[victim] / rules.guaranteed_s, (other, victim)


def used_in_time(life, at):
    """Whether the slots of runs that are preempted then are used again as soon as can be.

    That is when they have left. But a run that is ordered before may come to need them in the meantime,
    because a guarantee has ended or usage has changed: then that one preempts others, and it starts when
    those have left. Or it has waited for two guarantees by then, could not have these nodes kept before (a
    run ahead of it held some), and now has them kept until everybody there has had the guarantee.
    """
    rules, soon = life.rules, at + life.leave_s + 1e-6
    for start, run_id in sorted(life.starts):
        if start < at:
            continue
        for other, _, _ in life.preemptions:
            soon = max(soon, other + life.leave_s + 1e-6) if at <= other <= soon else soon
        waited_s = start - life.queued_before(run_id, start)
        kept = waited_s >= 2 * rules.guaranteed_s
        return start <= soon or (kept and start <= at + rules.guaranteed_s + 2 * life.leave_s)
    return False


def test_a_preempted_run_keeps_its_place():
    runs = [
        (NOW, candidate("first", gang(4)), 5000.0),
        (NOW + 1, candidate("second", gang(4)), 5000.0),
        (NOW + 400, candidate("urgent", gang(4), priority=1), 1000.0),
    ]
    life = Living(nodes(1, 4), RULES, runs, leave_s=5.0).run()
    assert [run_id for _, run_id in life.starts] == ["first", "urgent", "first", "second"]


@pytest.mark.parametrize("policy", [Policy.LEAST_ATTAINED, Policy.FAIR_SHARE])
def test_a_run_of_the_whole_pool_is_not_passed_for_ever_by_short_ones(policy):
    """They come faster than their guaranteed time ends; when it has waited long, nodes are kept for it."""
    rules = replace(RULES, policy=policy)
    big = (NOW + 5, candidate("big", gang(8), owner="ada"), 50.0)
    old = [
        (NOW + 7 * number, candidate(f"s{number:04}", gang(1), owner="grace", attained_slot_s=5000.0), 200.0)
        for number in range(900)
    ]
    life = Living(nodes(2, 4), rules, [big, *old], leave_s=5.0).run(until=NOW + 6000)
    assert "big" in life.ended
    assert life.first_start["big"] <= NOW + 5 + 600 + 2 * rules.guaranteed_s


@given(some_submissions, st.sampled_from(POLICIES))
@WHOLE_LIVES
def test_a_ledger_made_from_the_snapshot_preempts_alike(submissions, policy):
    life_of(submissions, replace(RULES, policy=policy), leave_s=20.0, doubting=True).run()
