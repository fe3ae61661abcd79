"""What a waiting cycle or interruptible run is told of its turn or block, and the reasons of many nodes."""

from __future__ import annotations

import pytest

from facts import NOW, candidate, gang, holding, node, nodes, snapshot
from tarmac.model.cluster import NodeState, Pool
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Share
from tarmac.model.resources import ReasonCode
from tarmac.sched import Snapshot, Waiting, explain

PERIOD_S = 3600.0
BEGAN = NOW // PERIOD_S * PERIOD_S
RULES = (Pool(cluster="local", period_s=PERIOD_S, turn_s=90.0),)


def explained(run, *others, held=()) -> str:
    """What is said of a run; the node is taken."""
    taken = holding("h", {"n1": range(8)}, mode=Mode.CYCLE, priority=9)
    facts = Snapshot(pools=RULES, nodes=nodes(1), queue=(run, *others), holdings=(taken, *held))
    answer = explain(facts, run.run_id, NOW)
    assert isinstance(answer, Waiting)
    return answer.unblocked_by


def test_i11_a_cycle_run_is_told_how_many_have_their_turn_first():
    line = [candidate(f"c{n}", gang(8), mode=Mode.CYCLE, queued_at=NOW - 10 + n) for n in range(3)]
    words = explained(*reversed(line))
    assert "1 cycle run has its turn now." in words
    assert "2 cycle runs in line before it." in words
    assert "A turn lasts 90 s." in words


@pytest.mark.parametrize(
    ("share", "sentence"),
    [
        pytest.param(
            Share(period_at=BEGAN, allotted_s=900.0, rank=0, used_s=300.0, credit_s=120.0),
            "Of its block of 15 min in this period it has 10 min left, and 2 min of credit.",
            id="owed",
        ),
        pytest.param(
            Share(period_at=BEGAN, allotted_s=900.0, rank=0, used_s=900.0, credit_s=300.0),
            "Its block of this period is used, and 5 min of its credit is left.",
            id="credit",
        ),
        pytest.param(
            Share(period_at=BEGAN, allotted_s=900.0, rank=0, used_s=1000.0),
            "Its block of this period is used: until the next it starts where no other run does.",
            id="used up",
        ),
        pytest.param(
            None,
            "It came after this period was shared out: until the next it starts where no other run does.",
            id="newcomer",
        ),
    ],
)
def test_i12_an_interruptible_run_is_told_its_block_its_credit_and_the_next_period(share, sentence):
    run = candidate("i", gang(8), mode=Mode.INTERRUPTIBLE, share=share, submitted_at=NOW)
    words = explained(run)
    assert sentence in words
    left_min = round((BEGAN + PERIOD_S - NOW) / 60)
    assert f"The next period begins in {left_min} min." in words


def test_the_reasons_of_many_nodes_are_told_together():
    where = (*nodes(70), *(node(f"d{n}", state=NodeState.DRAINED) for n in range(3)), node("tiny", 1))
    held = [holding(f"h{n}", {f"n{n}": range(8)}) for n in range(1, 71)]
    answer = explain(snapshot(where, [candidate("r", gang(16))], held), "r", NOW)
    assert isinstance(answer, Waiting)
    codes = [reason.code for reason in answer.reasons]
    assert codes[:2] == [ReasonCode.BUSY, ReasonCode.NODE_DRAINED], "the most first"
    busy, drained = answer.reasons[:2]
    assert busy.text.startswith("70 nodes (n1, n2, n3, n4 and 66 more): 0 of 8 slots free; ")
    assert "held by" not in busy.text
    assert drained.text.startswith("3 nodes (d0, d1, d2): drained")
    assert [reason.node for reason in answer.reasons] == [None, None, "tiny"]


def test_up_to_64_nodes_are_told_one_by_one():
    held = [holding(f"h{n}", {f"n{n}": range(8)}) for n in range(1, 65)]
    answer = explain(snapshot(nodes(64), [candidate("r", gang(8))], held), "r", NOW)
    assert isinstance(answer, Waiting)
    assert len(answer.reasons) == 64
    assert all("held by" in reason.text for reason in answer.reasons)
