"""Who goes first, who may pass, who is refused, and what is kept for whom."""

from __future__ import annotations

from itertools import permutations

import pytest

from facts import (
    BACKFILL_WINDOW_S,
    NOW,
    candidate,
    gang,
    holding,
    layout,
    node,
    nodes,
    replicas,
    snapshot,
    started,
)
from tarmac.model.cluster import NodeState
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import CauseCode
from tarmac.model.resources import ReasonCode
from tarmac.model.spec import Queueing
from tarmac.sched import plan

LONG_AGO = NOW - BACKFILL_WINDOW_S


@pytest.mark.parametrize(
    "order",
    [
        pytest.param([{"priority": 2}, {"priority": 1}, {"priority": -1}], id="bigger priority first"),
        pytest.param([{"submitted_at": NOW - 2}, {"submitted_at": NOW - 1}, {}], id="submitted first"),
        pytest.param([{"position": NOW - 2}, {"submitted_at": NOW - 1}, {}], id="a place given by a person"),
        pytest.param([{}, {"position": NOW + 0.5}, {"submitted_at": NOW + 1}], id="between two neighbours"),
        pytest.param([{"priority": 1}, {"position": 0.0}], id="priority before position"),
        pytest.param(
            [{"mode": Mode.CYCLE}, {"priority": 9}, {"mode": Mode.INTERRUPTIBLE, "priority": 99}],
            id="modes before priority",
        ),
        pytest.param([{}, {}, {}], id="the id decides between equals"),
    ],
)
def test_the_order_of_the_queue(order):
    queue = [candidate(f"r{index}", gang(1), **changes) for index, changes in enumerate(order)]
    for shuffled in permutations(queue):
        assert started(plan(snapshot(nodes(1, len(order)), shuffled), NOW)) == [run.run_id for run in queue]


def test_m3_a_smaller_later_run_starts_before_a_bigger_one_that_cannot():
    facts = snapshot(
        nodes(1),
        [candidate("big", gang(8), priority=1), candidate("small", gang(4))],
        [holding("h", {"n1": range(4)})],
    )
    assert started(plan(facts, NOW)) == ["small"]


def test_m3_a_bigger_run_that_waited_long_enough_is_not_passed_any_more():
    facts = snapshot(
        nodes(1),
        [candidate("big", gang(8), priority=1, queued_at=LONG_AGO), candidate("small", gang(4))],
        [holding("h", {"n1": range(4)})],
    )
    assert started(plan(facts, NOW)) == []
    assert started(plan(facts, NOW - 1)) == ["small"], "a second before, it still is"


def test_only_the_nodes_where_the_head_starts_soonest_are_kept():
    facts = snapshot(
        nodes(3),
        [candidate("big", gang(16), queued_at=LONG_AGO), *(candidate(f"s{i}", gang(4)) for i in range(4))],
        [
            holding("early", {"n1": range(4)}, granted_at=NOW - 9),
            holding("late", {"n3": range(4)}, granted_at=NOW - 1),
        ],
    )
    assert layout(plan(facts, NOW), "s0") == [("n3", 4)]
    assert started(plan(facts, NOW)) == ["s0"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param({"time_limit_s": 500.0}, {"time_limit_s": 1000.0}, id="the shorter time limit"),
        pytest.param({"time_limit_s": 1000.0}, {}, id="a time limit before none"),
        pytest.param({"leaving": True}, {"time_limit_s": 200.0}, id="on its way out"),
        pytest.param({"granted_at": NOW - 300}, {"granted_at": NOW - 200}, id="granted first"),
    ],
)
@pytest.mark.parametrize("names", [("h1", "h2"), ("h2", "h1")])
def test_the_node_that_comes_free_soonest_is_kept(first, second, names):
    held = [
        holding(names[0], {"n1": range(8)}, **first),
        holding(names[1], {"n2": range(7)}, **second),
    ]
    queue = [candidate("big", gang(8), queued_at=LONG_AGO), candidate("small", gang(1))]
    for holdings in permutations(held):
        facts = snapshot(nodes(2), queue, holdings)
        assert layout(plan(facts, NOW), "small") == [("n2", 1)], "n1 is what the big one waits for"


def test_a_time_limit_lets_a_run_pass_on_kept_nodes_if_it_ends_in_time():
    facts = snapshot(
        nodes(1),
        [
            candidate("big", gang(8), priority=1, queued_at=LONG_AGO),
            candidate("unlimited", gang(1)),
            candidate("long", gang(1), time_limit_s=901.0),
            candidate("short", gang(1), time_limit_s=900.0),
        ],
        [holding("h", {"n1": range(4)}, time_limit_s=1000.0, started_at=NOW - 100)],
    )
    assert started(plan(facts, NOW)) == ["short"]


def test_nobody_passes_on_kept_nodes_while_it_is_unknown_when_they_are_wanted():
    facts = snapshot(
        nodes(1),
        [candidate("big", gang(8), queued_at=LONG_AGO), candidate("short", gang(1), time_limit_s=1.0)],
        [holding("h", {"n1": range(4)})],
    )
    assert started(plan(facts, NOW)) == []


def test_a_head_that_no_running_node_can_hold_keeps_nothing():
    where = (node("n1", 8, state=NodeState.DOWN), node("n2", 4))
    facts = snapshot(where, [candidate("big", gang(8), queued_at=LONG_AGO), candidate("small", gang(4))])
    assert started(plan(facts, NOW)) == ["small"]


def test_nodes_are_kept_in_one_pool_without_touching_the_others():
    where = (node("a1", 8, pool="a"), node("b1", 4, pool="b"))
    facts = snapshot(
        where,
        [candidate("big", gang(8), queued_at=LONG_AGO), candidate("small", gang(4))],
        [holding("h", {"a1": range(4)})],
    )
    assert layout(plan(facts, NOW), "small") == [("b1", 4)]


def test_c10_a_run_that_may_not_wait_is_refused_as_busy_with_the_reason_per_node():
    facts = snapshot(
        nodes(2),
        [candidate("r", gang(8), queueing=Queueing.FAIL_IF_BUSY)],
        [holding("h1", {"n1": range(3)}), holding("h2", {"n2": range(8)})],
    )
    (refusal,) = plan(facts, NOW).refusals
    assert (refusal.run_id, refusal.code, refusal.largest) == ("r", CauseCode.BUSY, None)
    assert [(reason.node, reason.code) for reason in refusal.reasons] == [
        ("n1", ReasonCode.GANG),
        ("n2", ReasonCode.BUSY),
    ]


def test_c10_the_same_run_waits_if_it_may_and_starts_if_there_is_room():
    held = [holding("h", {"n1": range(3)})]
    assert plan(snapshot(nodes(1), [candidate("r", gang(8))], held), NOW).refusals == ()
    fail_if_busy = candidate("r", gang(5), queueing=Queueing.FAIL_IF_BUSY)
    assert started(plan(snapshot(nodes(1), [fail_if_busy], held), NOW)) == ["r"]


def test_c10_busy_reasons_are_those_of_the_moment():
    fail_if_busy = [candidate(f"r{i}", gang(4), queueing=Queueing.FAIL_IF_BUSY) for i in range(4)]
    made = plan(snapshot(nodes(1), fail_if_busy), NOW)
    assert started(made) == ["r0", "r1"]
    assert [reason.text for refusal in made.refusals for reason in refusal.reasons] == [
        "0 of 8 slots free; 4 slots needed; held by r0, r1"
    ] * 2


@pytest.mark.parametrize(
    ("demands", "largest"),
    [
        pytest.param([gang(32)], "slots: 16", id="slots"),
        pytest.param([gang(1, cpus=64)], None, id="cpus alone are too many"),
        pytest.param([replicas(9, 2)], "8 of the 9 replicas", id="replicas"),
        pytest.param([replicas(1, 12)], "replicas of 8 slots each", id="one replica is too big"),
        pytest.param(
            [replicas(2, 4, role="a"), gang(12, role="b")], "slots: 8 for role 'b'", id="the biggest role"
        ),
    ],
)
def test_what_can_never_fit_is_refused_with_the_largest_that_would(demands, largest):
    facts = snapshot(nodes(2, cpus=32.0), [candidate("r", *demands)], [holding("h", {"n1": range(8)})])
    (refusal,) = plan(facts, NOW).refusals
    assert (refusal.code, refusal.largest) == (CauseCode.NEVER_FITS, largest)
    assert [reason.node for reason in refusal.reasons] == ["n1", "n2"]


def test_drained_and_down_nodes_can_come_back_so_they_count():
    where = (node("n1", 8, state=NodeState.DRAINED), node("n2", 8, state=NodeState.DOWN))
    assert plan(snapshot(where, [candidate("r", gang(16))]), NOW).refusals == ()
    assert len(plan(snapshot(where, [candidate("r", gang(17))]), NOW).refusals) == 1
