"""What a person is told about a run that waits, is refused, or starts."""

from __future__ import annotations

import pytest

from facts import BACKFILL_WINDOW_S, NOW, candidate, gang, holding, node, nodes, replicas, snapshot
from tarmac.model.cluster import LOCAL_CLUSTER, NodeState, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.progress import CauseCode
from tarmac.model.resources import ReasonCode
from tarmac.model.spec import Queueing, Target
from tarmac.sched import Placement, Refusal, Waiting, explain, plan


def why(facts, run_id="r") -> Waiting:
    waiting = explain(facts, run_id, NOW)
    assert isinstance(waiting, Waiting)
    return waiting


def test_a_run_that_starts_is_explained_by_its_placement():
    facts = snapshot(nodes(1), [candidate("r", gang(2))])
    assert explain(facts, "r", NOW) == plan(facts, NOW).placements[0]
    assert isinstance(explain(facts, "r", NOW), Placement)


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (candidate("r", gang(9)), CauseCode.NEVER_FITS),
        (candidate("r", gang(8), queueing=Queueing.FAIL_IF_BUSY), CauseCode.BUSY),
    ],
)
def test_c10_a_refused_run_is_explained_by_its_refusal(run, code):
    facts = snapshot(nodes(1), [run], [holding("h", {"n1": [0]})])
    refusal = explain(facts, "r", NOW)
    assert isinstance(refusal, Refusal)
    assert refusal.code is code
    assert (refusal,) == plan(facts, NOW).refusals


def test_a_run_that_is_not_in_the_queue_is_not_explained():
    with pytest.raises(KeyError, match="stranger"):
        explain(snapshot(nodes(1)), "stranger", NOW)


def test_c3_a_run_that_holds_nothing_is_in_nobody_s_way():
    weightless = candidate("weightless", replicas(1))
    (placement,) = plan(snapshot(nodes(1), [weightless]), NOW).placements
    beside = replace(holding("x", {"n1": [0]}), candidate=weightless, allocation=placement.allocation)
    waiting = why(snapshot(nodes(1), [candidate("r", gang(8))], [beside, holding("h", {"n1": [0]})]))
    assert waiting.awaits == ("h",)
    assert waiting.reasons[0].text.endswith("held by h")


def test_every_node_has_one_reason():
    where = (
        node("busy", 4, slot_type="h100"),
        node("partly", 4, slot_type="h100"),
        node("tiny", 1, slot_type="h100"),
        node("drained", 4, slot_type="h100", state=NodeState.DRAINED),
        node("down", 4, slot_type="h100", state=NodeState.DOWN),
        node("lost", 4, slot_type="h100", state=NodeState.LOST),
        node("west", 4, slot_type="h100", shard="west"),
        node("other", 4, slot_type="t4"),
        node("pool", 4, slot_type="h100", pool="p"),
        node("elsewhere", 4, slot_type="h100", cluster="x"),
    )
    where = tuple(replace(item, shard=item.shard or "east") for item in where)
    run = candidate(
        "r",
        replicas(2, 4, slot_type="h100"),
        target=Target(cluster="local", pool="default", shard="east"),
    )
    held = [holding("h1", {"busy": [0, 1]}), holding("h2", {"busy": [3]}, granted_at=NOW - 5)]
    assert {
        reason.node: (reason.code, reason.text) for reason in why(snapshot(where, [run], held)).reasons
    } == {
        "busy": (ReasonCode.BUSY, "1 of 4 slots free; 4 h100 slots needed; held by h1, h2"),
        "partly": (ReasonCode.GANG, "4 of 4 slots free: room for a part of the run, and all or none starts"),
        "tiny": (
            ReasonCode.TOO_SMALL,
            "it has 1 h100 slot in all, and 4 h100 slots is the least it would have to give",
        ),
        "drained": (ReasonCode.NODE_DRAINED, "drained: it takes no new runs until it is undrained"),
        "down": (ReasonCode.NODE_DOWN, "down"),
        "lost": (ReasonCode.NODE_LOST, "lost: nothing has been heard of it"),
        "west": (ReasonCode.OTHER_SHARD, "in shard 'west', not 'east'"),
        "other": (ReasonCode.OTHER_SLOT_TYPE, "its slots are t4, not h100"),
        "pool": (ReasonCode.OTHER_POOL, "in pool 'p', not 'default'"),
    }


def test_cpus_and_memory_are_named_when_they_are_what_lacks():
    where = (node("n1", 0, cpus=4, memory_bytes=8 << 30),)
    held = [replace_placement(holding("h", {"n1": []}), cpus=3.0, memory_bytes=6 << 30)]
    facts = snapshot(where, [candidate("r", replicas(1, cpus=2, memory_bytes=4 << 30))], held)
    (reason,) = why(facts).reasons
    assert reason.text == "1 of 4 cpus and 2 GiB of 8 GiB free; 2 cpus and 4 GiB needed; held by h"


def replace_placement(held, **changes):
    """The holding with its only placement changed."""
    (placement,) = held.allocation.placements
    return replace(held, allocation=replace(held.allocation, placements=(replace(placement, **changes),)))


def test_nodes_kept_for_the_head_say_for_whom():
    big = candidate("big", gang(8), queued_at=NOW - BACKFILL_WINDOW_S)
    facts = snapshot(nodes(1), [big, candidate("r", gang(4))], [holding("h", {"n1": range(4)})])
    waiting = why(facts)
    assert [(reason.code, reason.text) for reason in waiting.reasons] == [
        (ReasonCode.BEHIND, "4 of 8 slots free, but kept for big, which is ordered before")
    ]
    assert waiting.unblocked_by == (
        "It starts after run big, for which nodes are reserved. With priority 1 it would start at once."
    )
    assert waiting.ahead == 1
    assert {reason.code for reason in why(facts, "big").reasons} == {ReasonCode.BUSY}, "not kept from itself"


def test_a_time_limit_short_enough_to_pass_is_named():
    """The head needs the whole node in an hour at the latest: who ends before may have the rest of it."""
    big = candidate("big", gang(8), queued_at=NOW - BACKFILL_WINDOW_S)
    held = holding("h", {"n1": range(4)}, time_limit_s=3700.0)
    facts = snapshot(nodes(1), [big, candidate("r", gang(4), position=NOW + 1)], [held])
    assert "With a time limit of 60 min it would start at once." in why(facts).unblocked_by
    limited = [candidate("r", gang(4), position=NOW + 1, time_limit_s=9000.0, ran_s=1000.0)]
    assert "With a time limit of 76 min" in why(snapshot(nodes(1), [big, *limited], [held])).unblocked_by


def test_ahead_counts_waiting_runs_of_the_same_pools_only():
    where = (node("a1", 1, pool="a"), node("b1", 1, pool="b"))
    queue = [
        candidate("a-starts", gang(1), target=Target(pool="a"), priority=9),
        candidate("a-waits", gang(1), target=Target(pool="a"), priority=8),
        candidate("b-starts", gang(1), target=Target(pool="b"), priority=7),
        candidate("b-waits", gang(1), target=Target(pool="b"), priority=6),
        candidate("never", gang(9), priority=5),
        candidate("r", gang(1), target=Target(pool="a")),
        candidate("later", gang(1), target=Target(pool="a"), priority=-1),
    ]
    assert why(snapshot(where, queue)).ahead == 1


@pytest.mark.parametrize(
    ("where", "run", "held", "sentences"),
    [
        pytest.param(
            nodes(1),
            candidate("r", gang(8)),
            [holding("h", {"n1": range(8)})],
            ["It starts when run h has ended."],
            id="full",
        ),
        pytest.param(
            nodes(1),
            candidate("r", gang(8)),
            [holding("h", {"n1": range(8)}, time_limit_s=3700.0)],
            ["It starts when run h has ended, in 60 min at the latest."],
            id="full, with a time limit",
        ),
        pytest.param(
            nodes(2),
            candidate("r", gang(16)),
            [holding("h1", {"n1": [0]}), holding("h2", {"n2": [1, 2]})],
            ["It starts when runs h1 and h2 have ended.", "With slots: 12 it would start at once."],
            id="two runs to wait for",
        ),
        pytest.param(
            nodes(1),
            candidate("r", gang(8)),
            [holding(f"h{i}", {"n1": [i]}) for i in range(8)],
            ["It starts when runs h0, h1, h2, h3 and 4 others have ended."],
            id="many runs to wait for",
        ),
        pytest.param(
            (node("n1"), node("n2", state=NodeState.DRAINED)),
            candidate("r", gang(8)),
            [holding("h", {"n1": range(2)})],
            [
                "It starts when run h has ended.",
                "It would start at once after `tarmac nodes undrain n2`.",
                "With slots: 6 it would start at once.",
            ],
            id="a drained node",
        ),
        pytest.param(
            (node("n1", state=NodeState.DOWN),),
            candidate("r", gang(8)),
            [],
            ["It starts when enough of the nodes above take work again."],
            id="nothing is up",
        ),
        pytest.param(
            (node("n1", shard="a", slot_type="h100"), node("n2", shard="b", slot_type="h100")),
            candidate("r", gang(8, slot_type="h100"), target=Target(shard="a", hostnames=("n1",))),
            [holding("h", {"n1": range(8)})],
            ["It starts when run h has ended."],
            id="two constraints, neither helps alone",
        ),
        pytest.param(
            (node("n1", shard="a"), node("n2", shard="b")),
            candidate("r", gang(8), target=Target(shard="a")),
            [holding("h", {"n1": range(8)})],
            ["It starts when run h has ended.", "Without shard 'a' it would start at once."],
            id="another shard",
        ),
        pytest.param(
            (node("n1", slot_type="h100"), node("n2", slot_type="t4", pool="p")),
            candidate("r", replicas(2, 4, slot_type="h100")),
            [holding("h", {"n1": range(4)})],
            [
                "It starts when run h has ended.",
                "Without slot type h100 it would start at once.",
                "With 1 of the 2 replicas it would start at once.",
            ],
            id="another slot type, or fewer replicas",
        ),
    ],
)
def test_what_would_unblock_a_run(where, run, held, sentences):
    assert why(snapshot(where, [run], held)).unblocked_by == " ".join(sentences)


def test_what_waits_for_a_run_placed_in_this_pass_says_so():
    facts = snapshot(nodes(1), [candidate("first", gang(8), priority=1), candidate("r", gang(8))])
    waiting = why(facts)
    assert waiting.unblocked_by == (
        "It starts when run first has ended. With priority 2 it would start at once."
    )
    assert waiting.awaits == ("first",)
    assert waiting.reasons[0].text == "0 of 8 slots free; 8 slots needed; held by first"


def test_why_says_when_a_guess_decided_the_place():
    pool = Pool(cluster=LOCAL_CLUSTER, policy=Policy.LEAST_ATTAINED)
    run = candidate("r", gang(8), attained_slot_s=1_800.0, guess_slot_s=18_000.0)
    facts = replace(snapshot(nodes(1), [run], [holding("h", {"n1": [0]})]), pools=(pool,))
    said = "It has used 0.5 slot-hours, and is ordered as if 5.0: by what runs like it used."
    assert said in why(facts).unblocked_by
    outlived = replace(facts, queue=(replace(run, attained_slot_s=20_000.0),))
    assert said[-12:] not in why(outlived).unblocked_by
    assert said not in why(replace(facts, pools=())).unblocked_by
