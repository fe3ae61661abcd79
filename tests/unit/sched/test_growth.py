"""What a pass costs does not grow with those who cannot start: drained nodes, many users. Work is counted."""

from __future__ import annotations

from random import Random

import pytest

from facts import NOW, candidate, gang, holding, node, nodes, snapshot, started
from tarmac.model.cluster import NodeState, Policy, Pool
from tarmac.model.codec import replace
from tarmac.sched import Holding, Ledger, plan
from work import calls_of

DRAINED = NodeState.DRAINED
RULES = Pool(cluster="local")
SIZES = (1, 2, 4, 8, 16)


def calls_of_an_event(facts, event):
    """What a submission and the pass that follows cost a ledger that has made its first pass."""
    ledger = Ledger(facts)
    ledger.plan(NOW)

    def decide():
        ledger.queue(event)
        ledger.plan(NOW + 1)

    return calls_of(decide)


def blocked(queued, *, preemption=False):
    """Many queued runs for a slot type whose nodes are drained, and others for nodes that are full."""
    where = (
        *nodes(4, 8, slot_type="a100"),
        *(node(f"h{number}", 8, slot_type="h100", state=DRAINED) for number in range(4)),
    )
    queue = [
        candidate(
            f"r{number:05}", gang(SIZES[number % 5], slot_type="h100"), submitted_at=NOW - 5000 + number
        )
        for number in range(queued)
    ]
    queue += [candidate(f"a{number}", gang(8, slot_type="a100")) for number in range(10)]
    held = [holding(f"x{number}", {f"n{number + 1}": range(8)}, started_at=NOW - 1000) for number in range(4)]
    return replace(snapshot(where, queue, held), pools=(replace(RULES, preemption=preemption),))


@pytest.mark.parametrize("preemption", [False, True])
def test_a_drained_slot_type_costs_an_event_of_another_nothing(preemption):
    """A run for nodes that are up is decided in as much work behind 400 shut out runs as behind 40."""
    event = candidate("new", gang(4, slot_type="a100"))
    few, many = (calls_of_an_event(blocked(queued, preemption=preemption), event) for queued in (40, 400))
    assert many <= 1.1 * few + 50


def test_with_all_nodes_drained_a_submission_does_not_meet_the_whole_queue():
    def facts(queued):
        where = [replace(item, state=DRAINED) for item in nodes(4, 8)]
        return snapshot(
            where, [candidate(f"r{number:05}", gang(SIZES[number % 5])) for number in range(queued)]
        )

    few, many = (calls_of_an_event(facts(queued), candidate("new", gang(2))) for queued in (70, 700))
    assert many <= 1.1 * few + 50


def test_who_was_blocked_starts_once_a_node_takes_work_again():
    where = [node("a", 8, slot_type="a100"), node("h", 8, slot_type="h100", state=DRAINED)]
    queue = [candidate(name, gang(4, slot_type="h100")) for name in ("h1", "h2", "h3")]
    ledger = Ledger(snapshot(where, [*queue, candidate("a1", gang(8, slot_type="a100"))]))
    assert started(ledger.plan(NOW)) == ["a1"]
    up = (where[0], replace(where[1], state=NodeState.UP))
    ledger.set_cluster((), up)
    assert started(ledger.plan(NOW)) == ["a1", "h1", "h2"]
    ledger.set_cluster((), tuple(where))
    assert started(ledger.plan(NOW)) == ["a1"]
    assert ledger.plan(NOW) == plan(ledger.snapshot(), NOW)


def test_runs_that_cannot_start_do_not_use_up_the_chances_to_preempt_somebody():
    """Only so many are asked in a pass; a hundred whose nodes are drained are not among them."""
    facts = blocked(100, preemption=True)
    queue = [replace(run, priority=9) for run in facts.queue if run.run_id.startswith("r")]
    facts = replace(facts, queue=(*queue, candidate("urgent", gang(8, slot_type="a100"), priority=5)))
    assert [item.for_run_id for item in plan(facts, NOW).preemptions] == ["urgent"]


def shared(users, *, preemption):
    """A full cluster under fair share, and as many users who each wait with two runs."""
    rules = replace(RULES, policy=Policy.FAIR_SHARE, preemption=preemption)
    queue = [
        candidate(
            f"r{number:05}",
            gang(SIZES[number % 3]),
            owner=f"u{number % users}",
            submitted_at=NOW - 9000 + number,
        )
        for number in range(2 * users)
    ]
    held = [
        holding(f"x{number}", {f"n{number + 1}": range(8)}, owner=f"u{number}", started_at=NOW - 1000)
        for number in range(8)
    ]
    return replace(snapshot(nodes(8, 8), queue, held), pools=(rules,))


@pytest.mark.parametrize("preemption", [False, True])
def test_an_event_under_fair_share_scores_only_who_changed(preemption):
    """A submission, and the end of a run, cost as much with 600 waiting users as with 60."""

    def cost(users):
        ledger = Ledger(shared(users, preemption=preemption))
        ledger.plan(NOW)  # here all are ranked, and not by the event that first looks at a kind

        def events():
            ledger.queue(candidate("new", gang(2), owner="u5"))
            ledger.plan(NOW + 3)
            ledger.forget("x1")
            ledger.plan(NOW + 4)

        return calls_of(events)

    assert cost(600) <= 1.3 * cost(60) + 200


@pytest.mark.parametrize("began_s_ago", [10.0, 1000.0])
def test_an_event_under_fair_share_does_not_meet_everybody_who_holds_slots(began_s_ago):
    """Within their guaranteed time and beyond it: who holds slots is ranked like who waits."""

    def cost(users):
        rules = replace(RULES, policy=Policy.FAIR_SHARE, preemption=True, guaranteed_s=300.0)
        began_at = NOW - began_s_ago
        held = [
            holding(
                f"x{number}",
                {f"n{number + 1}": range(8)},
                owner=f"u{number}",
                granted_at=began_at,
                started_at=began_at,
            )
            for number in range(users)
        ]
        queue = [
            candidate(f"r{number}", gang(8), owner=f"u{number}", queued_at=NOW - 900) for number in range(8)
        ]
        ledger = Ledger(replace(snapshot(nodes(users, 8), queue, held), pools=(rules,)))
        ledger.plan(NOW)

        def events():
            ledger.queue(candidate("new", gang(2), owner="u5"))
            ledger.plan(NOW + 1)

        return calls_of(events)

    assert cost(400) <= 1.3 * cost(40) + 200


@pytest.mark.parametrize("preemption", [False, True])
def test_a_ranking_that_was_kept_is_the_one_that_is_made_anew(preemption):
    """Users hold, end, submit and are forgotten while time fades what they used; every plan is the same."""
    dice = Random(7)
    rules = replace(RULES, policy=Policy.FAIR_SHARE, preemption=preemption, half_life_s=500.0)
    ledger = Ledger(replace(snapshot(nodes(4, 8)), pools=(rules,)))
    now, waiting = NOW, []
    for number in range(250):
        now += dice.choice((0.0, 1.0, 700.0))
        run = candidate(
            f"r{number:04}",
            gang(dice.choice(SIZES[:4])),
            owner=f"u{dice.randrange(30)}",
            weight=dice.choice((1.0, 2.0)),
            time_limit_s=dice.choice((None, 100.0, 4000.0)),
            submitted_at=now,
        )
        ledger.queue(run)
        waiting.append(run.run_id)
        if dice.random() < 0.3:
            ledger.forget(waiting.pop(dice.randrange(len(waiting))))
        made = ledger.plan(now)
        assert made == plan(ledger.snapshot(), now)
        for placement in made.placements:
            candidate_of = ledger.candidate(placement.run_id)
            ledger.hold(
                Holding(
                    candidate=candidate_of,
                    allocation=placement.allocation,
                    granted_at=now,
                    started_at=now,
                    checkpoint_at=None,
                    leaving=False,
                )
            )


@pytest.mark.parametrize("policy", list(Policy))
def test_a_remembered_search_beyond_guaranteed_times_finds_what_a_new_one_finds(policy):
    """Wide runs wait behind guarded ones that come and go; every plan is that of a ledger made anew (M3)."""
    dice = Random(11)
    rules = replace(RULES, policy=policy, preemption=True, guaranteed_s=300.0, half_life_s=5000.0)
    ledger = Ledger(replace(snapshot(nodes(3, 8)), pools=(rules,)))
    now, alive, remembered = NOW, [], 0
    for number in range(300):
        now += dice.choice((0.0, 1.0, 20.0))
        run = candidate(
            f"r{number:04}", gang(dice.choice((1, 2, 4))), owner=f"u{dice.randrange(9)}", submitted_at=now
        )
        ledger.queue(run)
        alive.append(run.run_id)
        if dice.random() < 0.7:
            ledger.forget(alive.pop(dice.randrange(len(alive))))
        if number % 10 == 0:  # another run is the first that waits
            name = f"w{number}"
            waits = candidate(
                name, gang(dice.choice((5, 8, 12))), owner=name, queued_at=NOW - 900, priority=3
            )
            ledger.queue(replace(waits, position=NOW - 900 - number))
        (state,) = ledger.pools.values()
        before = list(state.memo.guarded)
        made = ledger.plan(now)
        remembered += bool(before) and before == state.memo.guarded
        assert made == plan(ledger.snapshot(), now)
        for placement in made.placements:
            if not placement.run_id.startswith("w"):  # they keep waiting
                held = Holding(
                    candidate=ledger.candidate(placement.run_id),
                    allocation=placement.allocation,
                    granted_at=now,
                    started_at=now,
                )
                ledger.hold(held)
    assert remembered > 10 or policy is Policy.LEAST_ATTAINED  # there a wide run is not ordered first


def crowded(slots):
    """Under fair share one user holds all slots, each with a run, and eight others wait with as many."""
    rules = replace(RULES, policy=Policy.FAIR_SHARE, preemption=True)
    held = [
        holding(f"x{number}", {f"n{number // 8 + 1}": [number % 8]}, owner="grace", started_at=NOW - 9000)
        for number in range(slots)
    ]
    queue = [candidate(f"r{number:05}", gang(1), owner=f"u{number % 8}") for number in range(slots)]
    return replace(snapshot(nodes(slots // 8, 8), queue, held), pools=(rules,))


def test_each_preemption_of_a_plan_costs_the_same_under_fair_share():
    """The runs that a plan has preempted for some are not met again by those after them."""

    def cost(slots):
        ledger, plans = Ledger(crowded(slots)), []
        calls = calls_of(lambda: plans.append(ledger.plan(NOW)))
        return calls / len(plans[0].preemptions)

    assert cost(320) <= 1.2 * cost(80)
