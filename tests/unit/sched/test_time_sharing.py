"""Time sharing in whole lives of small clusters: blocks (I12) and turns (I11)."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from examples import examples
from facts import candidate, gang, nodes
from living import Living
from tarmac.model.cluster import Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.sched import Ledger, PreemptionReason, Snapshot
from tarmac.sched.policies.blocks import period_at

PERIOD_S = 7200.0
START = 100 * PERIOD_S
RULES = Pool(cluster="local", period_s=PERIOD_S, floor_s=60.0, guaranteed_s=300.0)
FOREVER_S = 1e9
LEAVE_S = 10.0

FITTING = tuple(
    slots
    for slots in range(1, 49)
    if any(slots % count == 0 and slots // count <= 6 for count in range(1, 13))
)
"""Gang sizes that an equal split brings onto 12 nodes of 6 slots."""


def interruptible(run_id, slots=1, at=START - 100, duration_s=FOREVER_S, **changes):
    return at, candidate(run_id, gang(slots), mode=Mode.INTERRUPTIBLE, **changes), duration_s


def cycle(run_id, slots=1, at=START, duration_s=FOREVER_S):
    return at, candidate(run_id, gang(slots), mode=Mode.CYCLE), duration_s


def batch(run_id, slots=1, at=START, duration_s=100.0, **changes):
    return at, candidate(run_id, gang(slots), **changes), duration_s


def promised(life):
    """What each run was promised in the running period."""
    runs = [*life.queue.values(), *(holding.candidate for holding in life.holdings.values())]
    began = period_at(life.rules, life.now)
    return {
        run.run_id: run.share.allotted_s
        for run in runs
        if run.share is not None and run.share.period_at == began
    }


@given(st.lists(st.sampled_from(FITTING), min_size=1, max_size=14), st.sampled_from([0.0, LEAVE_S]))
@settings(max_examples=examples(40), deadline=None)
def test_i12_every_run_gets_its_promised_share_of_every_period_whatever_the_sizes(sizes, leave_s):
    runs = [interruptible(f"r{number}", slots) for number, slots in enumerate(sizes)]
    life = Living(nodes(12, 6), RULES, runs, leave_s=leave_s)
    for period in range(1, 4):
        end = START + period * PERIOD_S
        life.run(until=end - 0.01)
        share = promised(life)
        assert share.keys() == {f"r{number}" for number in range(len(sizes))}
        for run_id, allotted_s in share.items():
            assert allotted_s >= 0.9 * PERIOD_S / len(sizes) - LEAVE_S
            assert life.held_s(run_id, end - PERIOD_S, end) >= allotted_s - 0.1


@pytest.mark.parametrize("seed", range(4))
def test_i12_side_by_side_uses_the_cluster_at_least_twice_as_well_as_one_at_a_time(seed):
    sizes = [FITTING[(7 * number + 5 * seed) % len(FITTING)] for number in range(12)]
    runs = [interruptible(f"r{number}", slots) for number, slots in enumerate(sizes)]
    life = Living(nodes(12, 6), RULES, runs, leave_s=LEAVE_S).run(until=START + 3 * PERIOD_S)
    life.stays += [
        dataclasses.replace(stay, ended_at=life.now)
        for stay in (_as_stay(holding, life.now) for holding in life.holdings.values())
    ]
    used = sum(
        stay.slots * (stay.ended_at - max(START, stay.began_at))
        for stay in life.stays
        if stay.ended_at > START
    )
    utilisation = used / (72 * 3 * PERIOD_S)
    one_at_a_time = sum(sizes) / len(sizes) / 72
    assert utilisation >= min(2 * one_at_a_time, 0.9)


def _as_stay(holding, now):
    from living import Stay

    return Stay(holding.candidate.run_id, holding.granted_at, now, holding.allocation.slots)


def test_i12_blocks_in_turn_where_only_one_fits_and_renewed_not_restarted():
    """Three runs of the whole cluster; who runs at the boundary goes on into its next block."""
    runs = [interruptible(name, 4) for name in ("a", "b", "c")]
    life = Living(nodes(1, 4), RULES, runs, leave_s=LEAVE_S).run(until=START + 3 * PERIOD_S - 1)
    after = [run_id for at, run_id in life.starts if at >= START]
    assert after[:4] == ["b", "c", "a", "b"], "first a ran on at the boundary, then c did"
    assert all(count == 1 for count in Counter(life.starts).values())


def test_i12_a_newcomer_uses_idle_time_and_never_shortens_a_promised_block():
    runs = [interruptible("a", 3), interruptible("b", 3), interruptible("new", 1, at=START + 10)]
    life = Living(nodes(1, 4), RULES, runs).run(until=START + PERIOD_S - 1)
    assert life.first_start["new"] == START + 10, "a slot is idle"
    wide = [interruptible("a", 3), interruptible("b", 3), interruptible("new", 4, at=START + 10)]
    life = Living(nodes(1, 4), RULES, wide).run(until=START + PERIOD_S - 1)
    assert "new" not in life.first_start
    life.run(until=START + 2 * PERIOD_S - 1)
    assert promised(life).keys() == {"a", "b", "new"}
    assert life.held_s("new", START + PERIOD_S, START + 2 * PERIOD_S) >= promised(life)["new"] - 0.1


def test_i12_where_blocks_would_be_shorter_than_the_floor_runs_are_served_in_rotation():
    rules = replace(RULES, floor_s=2000.0)
    runs = [interruptible(f"r{number}", 4) for number in range(7)]
    life = Living(nodes(1, 4), rules, runs, leave_s=LEAVE_S)
    served: Counter[str] = Counter()
    for period in range(1, 8):
        life.run(until=START + period * PERIOD_S - 0.01)
        share = promised(life)
        assert sum(1 for allotted_s in share.values() if allotted_s) == 3
        for run_id, allotted_s in share.items():
            assert life.held_s(run_id, life.now - PERIOD_S, life.now) >= allotted_s - 0.1
            served[run_id] += allotted_s > 0
    assert set(served.values()) == {3}, "each as often as the others"


@given(st.integers(0, 900), st.integers(1, 2), st.sampled_from([0.0, 2.0, LEAVE_S]))
@settings(max_examples=examples(60), deadline=None)
@example(220, 1, 0.0)  # the cycle run has its turn when the period ends: the run that it cut waits then
def test_i12_where_one_block_fills_the_period_every_run_has_one_in_two_periods(at, turns, leave_s):
    """A cycle run cuts a block: the rest of it is given back, and the next block is the other run's.

    The turns may fall into a block, and leave a third of it at least.
    """
    rules = replace(RULES, period_s=300.0, floor_s=300.0)
    runs = [interruptible("a", 4, at=START - 100), interruptible("b", 4, at=START - 90)]
    life = Living(nodes(1, 4), rules, [*runs, cycle("c", 4, at=START + at)], leave_s=leave_s, turns=turns)
    for period in range(2, 8):
        life.run(until=START + period * 300.0 - 0.01)
        had = [life.held_s(run_id, life.now - 600.0, life.now) for run_id in ("a", "b")]
        assert min(had) >= 90.0


def test_i11_a_cycle_run_preempts_only_as_many_interruptible_runs_as_it_needs():
    runs = [interruptible(f"r{number}", 2) for number in range(6)]
    life = Living(nodes(3, 4), RULES, [*runs, cycle("c", 3, at=START + 500)], leave_s=LEAVE_S, turns=1)
    life.run(until=START + 505)
    preempted = [preemption for at, preemption, _ in life.preemptions if at == START + 500]
    assert len(preempted) == 2
    assert {item.for_run_id for item in preempted} == {"c"}
    assert all(item.reason is PreemptionReason.MAKE_WAY for item in preempted)


def test_i11_a_cycle_run_that_fits_preempts_nobody():
    life = Living(nodes(2, 4), RULES, [interruptible("a", 4), cycle("c", 4)], turns=1)
    life.run(until=START + 200)
    assert [item.reason for _, item, _ in life.preemptions] == [PreemptionReason.TURN_OVER]


def test_i11_turns_end_after_their_time_and_go_to_the_back_of_the_line():
    life = Living(nodes(1, 1), RULES, [cycle(name) for name in "abc"], turns=2, leave_s=2.0)
    life.run(until=START + 1000)
    assert [run_id for _, run_id in life.starts] == ["a", "b", "c", "a", "b", "c"]
    assert {at - holding.started_at for at, _, holding in life.preemptions} == {90.0}
    assert life.ended.keys() == {"a", "b", "c"}


def test_i11_a_turn_ends_though_nobody_waits():
    life = Living(nodes(1, 1), RULES, [cycle("a")], turns=3).run(until=START + 1000)
    assert len(life.starts) == 3
    assert life.ended == {"a": START + 270}


@given(st.integers(1, 3), st.lists(st.integers(0, 3000), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_i11_after_the_last_cycle_run_the_victim_resumes_before_any_other_and_gets_its_time_back(
    count, times
):
    runs = [interruptible(f"r{number}", 4) for number in range(3)]
    cycles = [cycle(f"c{number}", 4, at=START + 100 + at) for number, at in enumerate(sorted(times))]
    life = Living(nodes(1, 4), RULES, [*runs, *cycles], leave_s=LEAVE_S, turns=count)
    life.run(until=START + PERIOD_S - 0.01)
    cut = [(at, item.run_id) for at, item, _ in life.preemptions if item.for_run_id in life.had_turns]
    assume(cut)  # a turn may begin where a block has just ended: nothing was taken then
    for at, victim in cut:
        begun = promised(life)[victim] - life.held_s(victim, START, at + LEAVE_S) > 1.0
        back = [run_id for start, run_id in life.starts if start > at and run_id.startswith("r")]
        assert not begun or not back or back[0] == victim
    life.run(until=START + 2 * PERIOD_S - 0.01)
    both = {run_id: life.held_s(run_id, START, START + 2 * PERIOD_S) for run_id in ("r0", "r1", "r2")}
    assert max(both.values()) - min(both.values()) <= 0.1 * PERIOD_S, "what was taken is given back"


def test_i11_between_the_turns_of_a_cycle_run_nobody_gives_way_to_a_run_that_would_need_its_slots():
    """The big run is owed its block, the newcomer nothing; but the big one can start after the last only."""
    runs = [interruptible("big", 8), interruptible("new", 4, at=START + 10)]
    life = Living(nodes(2, 4), RULES, [*runs, cycle("c", 4, at=START + 500)], leave_s=LEAVE_S, turns=3)
    life.run(until=START + 1000)
    assert life.starts[1:] == [
        (START + 510, "c"),
        (START + 510, "new"),
        (START + 610, "c"),
        (START + 710, "c"),
        (START + 810, "big"),
    ]
    (last,) = [at for at, item, _ in life.preemptions if item.run_id == "new"]
    assert last == START + 800, "the newcomer uses what the turns leave, and is not started anew with each"


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=3),
    st.lists(st.integers(1, 4), min_size=1, max_size=2),
    st.lists(st.sampled_from([2, 4, 6, 8]), min_size=1, max_size=2),
    st.integers(2, 4),
    st.integers(50, 6000),
)
@settings(max_examples=examples(40), deadline=None)
@example(
    [2], [1], [6, 8], 2, 50
)  # once the last without a known end has left, the start of a cycle run is known
@example(
    [6, 4], [1, 3], [2, 2], 2, 50
)  # one that was refused follows a cycle run whose turn ends while the victim leaves
@example([8, 1], [1], [2], 2, 3551)  # the last victims are asked just before the end, and leave after it
def test_i11_i12_whoever_gives_way_does_so_for_a_run_that_then_starts(sizes, late, wide, turns, at):
    """However cycle runs take turns meanwhile: their slots are not counted on before the last turn."""
    runs = [interruptible(f"r{number}", slots) for number, slots in enumerate(sizes)]
    runs += [interruptible(f"s{number}", slots, at=START + 10) for number, slots in enumerate(late)]
    cycles = [cycle(f"c{number}", slots, at=START + at) for number, slots in enumerate(wide)]
    life = Living(nodes(2, 4), RULES, [*runs, *cycles], leave_s=LEAVE_S, turns=turns)
    asked = list(life.run(until=START + PERIOD_S - 60).preemptions)
    life.run(until=life.now + LEAVE_S)
    arrives = (START + at - LEAVE_S, START + at)
    for moment, item, _ in asked:
        if item.for_run_id is not None and not arrives[0] <= moment <= arrives[1]:
            begun = [start for start, run_id in life.starts if run_id == item.for_run_id]
            assert any(moment <= start <= moment + LEAVE_S for start in begun)


def test_i12_credit_is_given_back_after_the_promised_blocks():
    """A batch run takes most of a period: what was promised then is owed in the next."""
    runs = [interruptible("a", 4), interruptible("b", 2), batch("x", 4, at=START - 50, duration_s=5000.0)]
    rules = replace(RULES, preemption=True, guaranteed_s=0.0)
    life = Living(nodes(1, 4), rules, runs).run(until=START + PERIOD_S + 1)
    owed = {
        run.run_id: run.share.credit_s
        for run in (*life.queue.values(), *(item.candidate for item in life.holdings.values()))
        if run.share is not None
    }
    assert owed["a"] > 0 or owed["b"] > 0
    life.run(until=START + 2 * PERIOD_S - 0.01)
    for run_id, credit_s in owed.items():
        served = life.held_s(run_id, START + PERIOD_S, START + 2 * PERIOD_S)
        assert served >= promised(life)[run_id] - 0.1
        assert credit_s <= PERIOD_S


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_a_fresh_ledger_made_at_any_moment_decides_the_same(data):
    """Blocks, turns and batch runs together, every plan held against one made from the snapshot alone."""
    sizes = st.integers(1, 6)
    runs = [
        interruptible(f"i{number}", data.draw(sizes), at=START + data.draw(st.integers(-900, 900)))
        for number in range(data.draw(st.integers(0, 4)))
    ]
    runs += [
        cycle(f"c{number}", data.draw(sizes), at=START + data.draw(st.integers(0, 2000)))
        for number in range(data.draw(st.integers(0, 2)))
    ]
    runs += [
        batch(f"b{number}", data.draw(sizes), at=START + data.draw(st.integers(-900, 2000)), duration_s=700.0)
        for number in range(data.draw(st.integers(0, 4)))
    ]
    rules = replace(RULES, preemption=data.draw(st.booleans()))
    Living(nodes(2, 4), rules, runs, leave_s=7.0, turns=2, doubting=True).run(until=START + 2 * PERIOD_S)


def test_i12_a_pass_that_grants_shares_starts_nobody_and_is_followed_by_one_that_does():
    run = interruptible("a")[1]
    facts = Snapshot(
        pools=(RULES,), nodes=nodes(1), queue=(replace(run, submitted_at=START - 5),), holdings=()
    )
    plan = Ledger(facts).plan(START)
    assert [grant.run_id for grant in plan.shares] == ["a"]
    assert plan.placements == ()
    shared = replace(facts.queue[0], share=plan.shares[0].share)
    later = Ledger(replace(facts, queue=(shared,))).plan(START)
    assert [(item.run_id, item.allotted_s) for item in later.placements] == [("a", PERIOD_S - 30.0)]
    assert later.next_at == START + PERIOD_S
