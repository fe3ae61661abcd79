"""Plans under limits: no user, project or pool gets more slots than it may hold; the reason is a value."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_facts import snapshots
from examples import examples
from facts import NOW, candidate, gang, holding, nodes, replicas, snapshot, started
from tarmac.model.codec import replace
from tarmac.model.people.limits import Cap, LimitKind, SlotUse
from tarmac.model.progress import CauseCode
from tarmac.model.resources import ReasonCode
from tarmac.model.run import Allocation
from tarmac.model.spec import Queueing, Target
from tarmac.sched import (
    Candidate,
    Durations,
    Ledger,
    Snapshot,
    Waiting,
    estimates,
    explain,
    plan,
    scope_of_run,
)

FOUR = Cap(user="ada", kind=LimitKind.SLOTS, most=4)


def asks(run_id: str, slots: int = 2, **changes: object) -> Candidate:
    return candidate(run_id, gang(slots), **changes)


def test_n16_a_user_holds_no_more_slots_at_once_than_allowed():
    queue = [asks(f"r{number}", time_limit_s=100.0) for number in range(4)] + [asks("other", owner="bob")]
    facts = snapshot(nodes(2), queue, [holding("h", {"n1": [0]}, time_limit_s=200.0)], caps=(FOUR,))
    assert sorted(started(plan(facts, NOW))) == ["other", "r0"]
    waits = explain(facts, "r1", NOW)
    assert isinstance(waits, Waiting)
    assert [reason.code for reason in waits.reasons] == [ReasonCode.LIMIT]
    assert waits.reasons[0].text == ("runs of user ada may hold 4 slots and hold 3; this one needs 2"), (
        "with its present use"
    )
    assert waits.unblocked_by == (
        "An administrator can raise the limit: tarmac limits set --user ada --slots MORE. "
        "With priority 1 it would start at once. With slots: 1 it would start at once."
    )


def test_n16_the_tightest_limit_is_named():
    caps = (
        FOUR,
        Cap(project="*", kind=LimitKind.SLOTS, most=2),
        Cap(user="*", pool="local/default", kind=LimitKind.SLOTS, most=3),
    )
    facts = snapshot(nodes(1), [asks("r", 5)], caps=caps)
    waits = explain(facts, "r", NOW)
    assert isinstance(waits, Waiting)
    assert "project default may hold 2 slots" in waits.reasons[0].text
    assert "--project default --slots MORE" in waits.unblocked_by
    looser = replace(facts, caps=(*caps, Cap(project="default", kind=LimitKind.SLOTS, most=9)))
    waits = explain(looser, "r", NOW)
    assert isinstance(waits, Waiting)
    assert "user ada in pool local/default may hold 3 slots" in waits.reasons[0].text, "a name replaces *"


def test_n16_a_limit_of_one_pool_leaves_the_others_open():
    where = (*nodes(1), *(replace(each, name="b1", pool="big") for each in nodes(1)))
    caps = (Cap(pool="local/default", kind=LimitKind.LARGEST, most=1),)
    facts = snapshot(where, [asks("r1"), asks("r2", target=Target(pool="default"))], caps=caps)
    (placement,) = plan(facts, NOW).placements
    assert (placement.run_id, placement.allocation.pool) == ("r1", "big")


@pytest.mark.parametrize("kind", [LimitKind.SLOT_HOURS, LimitKind.CREDITS])
def test_i13_a_used_up_amount_lets_no_slot_be_taken(kind: LimitKind):
    spent = Cap(user="ada", kind=kind, most=10.0, used=10.25)
    facts = snapshot(
        nodes(1), [asks("r1"), asks("r2", owner="bob"), candidate("r3", replicas(1))], caps=(spent,)
    )
    assert started(plan(facts, NOW)) == ["r2", "r3"], "a run without slots uses nothing"
    waits = explain(facts, "r1", NOW)
    assert isinstance(waits, Waiting)
    assert "10.2" in waits.reasons[0].text


def test_n16_a_run_over_a_limit_reserves_and_preempts_nothing():
    """Others pass it, and a run that may not wait is refused for the limit."""
    busy = [holding("h", {"n1": range(7)}, owner="bob", time_limit_s=500.0)]
    queue = [asks("r1", 6), asks("r2", 1, owner="bob"), asks("r3", 5, queueing=Queueing.FAIL_IF_BUSY)]
    decided = plan(snapshot(nodes(1), queue, busy, caps=(FOUR,)), NOW)
    assert started(decided) == ["r2"]
    assert decided.preemptions == ()
    (refusal,) = decided.refusals
    assert (refusal.run_id, refusal.code) == ("r3", CauseCode.BUSY)
    assert [reason.code for reason in refusal.reasons] == [ReasonCode.LIMIT]


def test_n16_a_start_after_others_of_the_user_is_estimated():
    """Also by the end of runs on nodes that it could not use itself."""
    where = (*nodes(1), *(replace(each, name="b1", pool="big") for each in nodes(1)))
    held = [holding("h", {"b1": range(4)}, started_at=NOW, time_limit_s=200.0)]
    ledger = Ledger(snapshot(where, [asks("r", target=Target(pool="default"))], held, caps=(FOUR,)))
    estimate = estimates(scope_of_run(ledger, "r", NOW), NOW, durations=Durations())["r"]
    assert estimate.start_at == pytest.approx(NOW + 200.0, abs=5.0)


def test_slots_elsewhere_count():
    elsewhere = (SlotUse("ada", "x", "slurm/gpu", 3),)
    facts = snapshot(nodes(1), [asks("r1"), asks("r2", 1)], caps=(FOUR,), elsewhere=elsewhere)
    assert started(plan(facts, NOW)) == ["r2"]
    assert Ledger(facts).snapshot() == facts


caps = st.builds(
    Cap,
    user=st.sampled_from([None, "ada"]),
    project=st.sampled_from([None, "default"]),
    pool=st.sampled_from([None, "local/default", "local/big"]),
    kind=st.just(LimitKind.SLOTS),
    most=st.integers(0, 12).map(float),
)


def held_under(cap: Cap, pairs: Iterable[tuple[Candidate, Allocation]]) -> int:
    """The slots that these runs hold under a limit."""
    return sum(
        allocation.slots
        for run, allocation in pairs
        if cap.user in (None, run.owner)
        and cap.project in (None, run.project)
        and cap.pool in (None, f"{allocation.cluster}/{allocation.pool}")
    )


@given(snapshots(), st.lists(caps, max_size=3, unique_by=lambda cap: cap.parts))
@settings(max_examples=examples(200), deadline=None)
def test_n16_no_plan_exceeds_a_limit(facts: Snapshot, found: list[Cap]):
    """Under each limit, the slots after a plan are within it, or those held before."""
    facts = replace(facts, caps=tuple(found))
    runs = {run.run_id: run for run in facts.queue}
    decided = plan(facts, NOW)
    assert plan(facts, NOW) == decided
    held = [(item.candidate, item.allocation) for item in facts.holdings]
    new = [(runs[item.run_id], item.allocation) for item in decided.placements]
    for cap in found:
        assert held_under(cap, held + new) <= max(cap.most, held_under(cap, held))
