"""Preempting: who may preempt whom, and the fewest victims."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from facts import NOW, candidate, gang, holding, nodes, replicas
from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Share
from tarmac.sched import Ledger, PreemptionReason, Snapshot
from tarmac.sched.cycle.victims import fewest
from tarmac.sched.index.forecast import Future
from tarmac.sched.policies.fairness import ADVANCE_GUARANTEES
from tarmac.sched.policies.precedence import Precedence

RULES = Pool(cluster="local", preemption=True, guaranteed_s=300.0, period_s=7200.0)
PERIOD_AT = NOW // 7200 * 7200
SPENT = Share(period_at=PERIOD_AT, allotted_s=10.0, rank=0, used_s=10.0)
OWED = Share(period_at=PERIOD_AT, allotted_s=7000.0, rank=0)
CREDIT = Share(period_at=PERIOD_AT, allotted_s=0.0, rank=0, credit_s=5000.0)

INTERRUPTIBLE = {"mode": Mode.INTERRUPTIBLE, "submitted_at": NOW - 9000}
LATER = {"submitted_at": NOW + 1}


def preempts(run, held, rules=RULES):
    """Whether the precedence of a pool lets a queued run preempt a holding now."""
    return Precedence(rules, NOW).preemptible_at(candidate("new", gang(1), **run), held) <= NOW


def held_by(run, since_s=1000.0, **changes):
    return holding("old", {"n1": [0]}, granted_at=NOW - since_s, started_at=NOW - since_s, **run, **changes)


@pytest.mark.parametrize(
    ("ours", "theirs", "with_preemption", "without"),
    [
        ({"mode": Mode.CYCLE}, {**INTERRUPTIBLE, "share": OWED}, True, True),
        ({"mode": Mode.CYCLE}, LATER, True, False),
        ({"mode": Mode.CYCLE}, {"mode": Mode.CYCLE}, False, False),
        ({"priority": 9}, {"mode": Mode.CYCLE}, False, False),
        ({}, {**INTERRUPTIBLE, "share": SPENT}, True, True),
        ({}, {**INTERRUPTIBLE, "share": OWED}, True, False),
        ({}, LATER, True, False),
        ({}, {"submitted_at": NOW - 1}, False, False),
        ({"priority": 1}, {"submitted_at": NOW - 1}, True, False),
        ({"submitted_at": NOW + 1}, {"submitted_at": NOW + 2, "priority": 1}, False, False),
        ({**INTERRUPTIBLE, "share": OWED}, LATER, False, False),
        ({**INTERRUPTIBLE, "share": OWED}, {**INTERRUPTIBLE, "share": SPENT}, True, True),
        ({**INTERRUPTIBLE, "share": OWED}, {**INTERRUPTIBLE, "share": CREDIT}, True, True),
        ({**INTERRUPTIBLE, "share": OWED}, {**INTERRUPTIBLE, "share": OWED}, False, False),
        ({**INTERRUPTIBLE, "share": CREDIT}, {**INTERRUPTIBLE, "share": SPENT}, True, True),
        ({**INTERRUPTIBLE, "share": CREDIT}, {**INTERRUPTIBLE, "share": OWED}, False, False),
        ({**INTERRUPTIBLE}, {**INTERRUPTIBLE, "share": SPENT}, False, False),
    ],
)
def test_who_may_preempt_whom(ours, theirs, with_preemption, without):
    assert preempts(ours, held_by(theirs)) is with_preemption
    assert preempts(ours, held_by(theirs), replace(RULES, preemption=False)) is without


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({}, LATER, False),
        ({"mode": Mode.CYCLE}, LATER, False),
        ({"mode": Mode.CYCLE}, {**INTERRUPTIBLE, "share": OWED}, True),
        ({}, {**INTERRUPTIBLE, "share": replace(SPENT, used_s=10.0)}, True),
        ({**INTERRUPTIBLE, "share": CREDIT}, {**INTERRUPTIBLE, "share": SPENT}, False),
    ],
)
def test_within_the_guaranteed_time_only_interruptible_runs_give_way(ours, theirs, expected):
    assert preempts(ours, held_by(theirs, since_s=200.0)) is expected


def test_a_run_that_has_not_started_yet_is_not_preempted():
    held = replace(held_by(LATER), started_at=None)
    assert Precedence(RULES, NOW).preemptible_at(candidate("new", gang(1)), held) == inf


def test_the_moment_is_told_when_somebody_becomes_preemptible():
    held = held_by(LATER, since_s=200.0)
    assert Precedence(RULES, NOW).preemptible_at(candidate("new", gang(1)), held) == NOW + 100
    facts = Snapshot(pools=(RULES,), nodes=nodes(1, 1), queue=(candidate("new", gang(1)),), holdings=(held,))
    plan = Ledger(facts).plan(NOW)
    assert (plan.preemptions, plan.next_at) == ((), NOW + 100)
    assert [item.run_id for item in Ledger(facts).plan(NOW + 100).preemptions] == ["old"]


def test_least_attained_a_run_is_preempted_once_it_has_climbed_past_the_waiting_one():
    rules = replace(RULES, policy=Policy.LEAST_ATTAINED)
    held = held_by({"submitted_at": NOW - 5000}, since_s=350.0)
    new = candidate("new", gang(1))
    assert Precedence(rules, NOW).preemptible_at(new, held) == NOW + 10, "360 slot-seconds are used then"
    facts = Snapshot(pools=(rules,), nodes=nodes(1, 1), queue=(new,), holdings=(held,))
    assert Ledger(facts).plan(NOW).next_at == NOW + 10
    assert [item.run_id for item in Ledger(facts).plan(NOW + 10).preemptions] == ["old"]


def test_fair_share_preempts_only_who_used_a_guarantee_more():
    rules = replace(RULES, policy=Policy.FAIR_SHARE)
    held = held_by({"owner": "grace"}, since_s=301.0)
    new = candidate("new", gang(1), owner="ada")

    def plan(used_slot_s):
        usage = UsageBucket(
            cluster="local", pool="default", user="ada", project="p", hour_at=NOW, slot_s=used_slot_s
        )
        facts = Snapshot(pools=(rules,), nodes=nodes(1, 1), queue=(new,), holdings=(held,), usage=(usage,))
        return Ledger(facts).plan(NOW).preemptions

    assert [item.run_id for item in plan(0.5)] == ["old"]
    assert plan(2.0) == ()
    assert ADVANCE_GUARANTEES > 1


# the fewest victims


def scene(sizes, free=0):
    """A node of 8 slots each, full of holdings of these sizes, later in order by their number."""
    held, number = [], 0
    for index, on_node in enumerate(sizes):
        slot = 0
        for slots in on_node:
            placements = {f"n{index + 1}": range(slot, slot + slots)}
            held.append(
                holding(
                    f"h{number:02}",
                    placements,
                    granted_at=NOW - 900,
                    started_at=NOW - 900,
                    submitted_at=NOW + number,
                )
            )
            slot, number = slot + slots, number + 1
    return nodes(len(sizes), 8), tuple(held)


some_nodes = st.lists(
    st.sampled_from([(8,), (4, 4), (2, 2, 4), (1, 1, 2, 4), (3, 5), (6, 2), (1,) * 8, (4,), (2, 1)]),
    min_size=1,
    max_size=5,
)
some_demands = st.one_of(
    st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16, 24]).map(gang),
    st.builds(replicas, st.integers(1, 4), st.integers(1, 8)),
)


@given(some_nodes, some_demands, st.integers(0, 2), st.integers(0, 12))
@settings(max_examples=examples(300), deadline=None)
def test_the_nodes_of_a_preemptor_are_those_where_it_fits_best(sizes, demand, free, first):
    """They are counted, and the same as those that a choice among all nodes finds."""
    where, held = scene(sizes)
    facts = Snapshot(pools=(RULES,), nodes=nodes(len(where) + free, 8), queue=(), holdings=held)
    ledger = Ledger(facts)
    (state,), request = ledger.pools.values(), ledger.request_of(candidate("wide", demand))
    holders = [state.holdings[run_id] for run_id in sorted(state.holdings, reverse=True)]
    found = fewest(request, holders[first:], leaving=holders[:first], board=state.board)
    if found is not None:
        future = Future(state.board)
        for holder in (*holders[:first], *found[0]):
            future.release(holder)
        parts = request.fit(future.view(request.target)) or ()
        assert found[1] == tuple(dict.fromkeys(part.space.node.name for part in parts))


@given(some_nodes, some_demands, st.integers(0, 12))
@settings(max_examples=examples(300), deadline=None)
def test_victims_are_enough_and_none_can_be_spared(sizes, demand, place):
    where, held = scene(sizes)
    run = candidate("new", demand, submitted_at=NOW + place - 0.5)
    facts = Snapshot(pools=(RULES,), nodes=where, queue=(run,), holdings=held)
    made = Ledger(facts).plan(NOW)
    victims = {item.run_id for item in made.preemptions}
    may = {item.candidate.run_id for item in held if item.candidate.submitted_at > run.submitted_at}
    assert victims <= may, "only who is ordered after it"

    def starts_without(gone):
        left = tuple(item for item in held if item.candidate.run_id not in gone)
        return bool(Ledger(replace(facts, holdings=left)).plan(NOW).placements)

    if made.placements:
        assert not victims, "nobody is preempted for a run that fits"
    elif not victims:
        assert not starts_without(may), "it would not have started whoever had left"
    else:
        assert starts_without(victims), "nothing is preempted without need"
        assert not any(starts_without(victims - {one}) for one in victims), "none can be spared"


def test_the_last_in_order_gives_way_first():
    where, held = scene([(4, 4), (4, 4)])
    facts = Snapshot(
        pools=(RULES,), nodes=where, queue=(candidate("new", gang(4), submitted_at=NOW - 1),), holdings=held
    )
    assert [item.run_id for item in Ledger(facts).plan(NOW).preemptions] == ["h03"]


def test_who_leaves_already_counts_as_free_and_nobody_else_is_asked():
    where, held = scene([(4, 4), (4, 4)])
    leaving = (*held[:3], replace(held[3], leaving=True))
    facts = Snapshot(
        pools=(RULES,),
        nodes=where,
        queue=(candidate("new", gang(4), submitted_at=NOW - 1),),
        holdings=leaving,
    )
    assert Ledger(facts).plan(NOW).preemptions == ()


def test_nodes_stay_kept_for_a_run_until_its_victims_have_left():
    """A smaller run, ordered after it, does not slip into what comes free first."""
    where, held = scene([(4, 4)])
    big, small = (
        candidate("big", gang(8), submitted_at=NOW - 1),
        candidate("small", gang(4), submitted_at=NOW + 99),
    )
    halfway = (replace(held[1], leaving=True),)
    facts = Snapshot(pools=(RULES,), nodes=where, queue=(big, small), holdings=halfway)
    plan = Ledger(facts).plan(NOW)
    assert (plan.placements, plan.preemptions) == ((), ())


def test_nodes_stay_kept_for_who_has_waited_long_until_guarantees_end_and_no_longer():
    """Nothing else need happen for that: the plan says when to look again. What ends before may have them."""
    where, held = scene([(4, 4)])
    guarded = replace(held[1], granted_at=NOW - 100, started_at=NOW - 100)
    runs = (
        candidate("big", gang(8), submitted_at=NOW - 950, queued_at=NOW - 950),
        candidate("long", gang(4), submitted_at=NOW),
        candidate("short", gang(4), submitted_at=NOW, time_limit_s=199.0),
    )
    facts = Snapshot(pools=(RULES,), nodes=where, queue=runs[:1], holdings=(guarded,))
    plan = Ledger(facts).plan(NOW)
    assert (plan.placements, plan.preemptions, plan.next_at) == ((), (), NOW + 200)
    assert [item.run_id for item in Ledger(facts).plan(NOW + 200).preemptions] == ["h01"]
    plan = Ledger(replace(facts, queue=runs)).plan(NOW)
    assert [item.run_id for item in plan.placements] == ["short"]


def test_nobody_gives_way_for_a_run_where_another_is_about_to_have_nodes_kept():
    """`big` keeps both nodes in ten seconds: by the time `ready` had left, `small` could not start there."""
    where, held = scene([(8,), (8,)])
    guarded = replace(held[1], granted_at=NOW - 100, started_at=NOW - 100)
    big = candidate("big", gang(16), submitted_at=NOW - 590, queued_at=NOW - 590)
    runs = (big, candidate("small", gang(8), submitted_at=NOW - 1))

    def plan(grace_s):
        ready = replace(held[0], grace_s=grace_s)
        facts = Snapshot(pools=(RULES,), nodes=where, queue=runs, holdings=(ready, guarded))
        return Ledger(facts).plan(NOW)

    assert (plan(20.0).preemptions, plan(20.0).next_at) == ((), NOW + 10)
    assert [(item.run_id, item.for_run_id) for item in plan(5.0).preemptions] == [("h00", "small")]


def test_least_progress_is_lost_among_interruptible_runs():
    held = tuple(
        replace(
            holding(
                f"i{number}",
                {"n1": [2 * number, 2 * number + 1]},
                mode=Mode.INTERRUPTIBLE,
                submitted_at=NOW - 9000,
                granted_at=NOW - 2000,
                started_at=NOW - 2000,
            ),
            checkpoint_at=checkpoint_at,
        )
        for number, checkpoint_at in enumerate([None, NOW - 500, NOW - 10, NOW - 900])
    )
    run = candidate("c", gang(2), mode=Mode.CYCLE)
    facts = Snapshot(pools=(RULES,), nodes=nodes(1, 8), queue=(run,), holdings=held)
    (victim,) = [
        item for item in Ledger(facts).plan(NOW).preemptions if item.reason is PreemptionReason.MAKE_WAY
    ]
    assert victim.run_id == "i2"
