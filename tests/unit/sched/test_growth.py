"""What a pass costs does not grow with those who cannot start: drained nodes, many users. Work is counted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from facts import NOW, candidate, gang, holding, node, nodes, snapshot, started
from tarmac.model.cluster import NodeState, Pool
from tarmac.sched import Ledger, plan
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


def shut_out(queued, *, preemption=False):
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
    few, many = (calls_of_an_event(shut_out(queued, preemption=preemption), event) for queued in (40, 400))
    assert many <= 1.1 * few + 50


def test_with_all_nodes_drained_a_submission_does_not_meet_the_whole_queue():
    def facts(queued):
        where = [replace(item, state=DRAINED) for item in nodes(4, 8)]
        return snapshot(
            where, [candidate(f"r{number:05}", gang(SIZES[number % 5])) for number in range(queued)]
        )

    few, many = (calls_of_an_event(facts(queued), candidate("new", gang(2))) for queued in (70, 700))
    assert many <= 1.1 * few + 50


def test_who_was_shut_out_starts_once_a_node_takes_work_again():
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


def test_runs_that_cannot_start_do_not_use_up_the_chances_to_displace_somebody():
    """Only so many are asked in a pass; a hundred whose nodes are drained are not among them."""
    facts = shut_out(100, preemption=True)
    queue = [replace(run, priority=9) for run in facts.queue if run.run_id.startswith("r")]
    facts = replace(facts, queue=(*queue, candidate("urgent", gang(8, slot_type="a100"), priority=5)))
    assert [item.for_run_id for item in plan(facts, NOW).preemptions] == ["urgent"]
