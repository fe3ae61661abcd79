"""The queue as it is listed: per pool, in the order in which a pass asks."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from facts import NOW, candidate, gang, holding, node, nodes, replicas, snapshot
from situations import situations
from tarmac.model.cluster import Policy, Pool
from tarmac.model.lifecycle import Mode
from tarmac.model.spec import Target
from tarmac.sched import Ledger, Part, QueuePlace, Snapshot, explain, pages, plan
from tarmac.sched.decisions import Waiting


def listed(facts: Snapshot) -> dict[str, list[str]]:
    """The runs of each pool in order."""
    pools: dict[str, list[str]] = {}
    for page in pages(Ledger(facts), NOW):
        pools[page.rules.name] = [place.run_id for place in page.places]
        assert [place.place for place in page.places] == list(range(page.total))
    return pools


def listing(ledger: Ledger) -> list[QueuePlace]:
    """The places in all pools."""
    return [place for page in pages(ledger, NOW) for place in page.places]


def test_d13_what_holds_slots_and_what_waits_stand_together_in_scheduling_order():
    queue = [
        candidate("low", gang(8), priority=-1),
        candidate("late", gang(8)),
        candidate("cycle", replicas(2, 4), mode=Mode.CYCLE),
        candidate("idle", gang(8), mode=Mode.INTERRUPTIBLE),
    ]
    running = holding("runs", {"n1": range(8)}, submitted_at=NOW - 500)
    (page,) = pages(Ledger(snapshot(nodes(1), queue, [running])), NOW)
    assert [(item.run_id, item.acquired, item.needed) for item in page.places] == [
        ("cycle", 0, 8),
        ("runs", 8, 8),
        ("late", 0, 8),
        ("low", 0, 8),
        ("idle", 0, 8),
    ]
    assert page.rules == Pool(cluster="local", name="default", policy=Policy.PRIORITY)


def test_d13_each_pool_is_counted_from_0():
    where = (node("a1", pool="a"), node("b1", pool="b"))
    queue = [
        candidate("one", gang(8), target=Target(pool="b")),
        candidate("two", gang(8), target=Target(pool="b"), position=NOW - 5),
        candidate("moved", gang(8), pool="a"),
    ]
    assert listed(snapshot(where, queue)) == {"a": ["moved"], "b": ["two", "one"]}


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        (Policy.PRIORITY, ["first", "second", "third"]),
        (Policy.FAIR_SHARE, ["third", "first", "second"]),
        (Policy.LEAST_ATTAINED, ["second", "third", "first"]),
    ],
)
def test_the_order_is_the_policy_s(policy: Policy, order: list[str]):
    queue = [
        candidate("first", gang(8), priority=2, attained_slot_s=1e6),
        candidate("second", gang(8), priority=1),
        candidate("third", gang(8), owner="bob", submitted_at=NOW + 1, attained_slot_s=4e3),
    ]
    held = [holding("adas", {"n2": range(8)}, granted_at=NOW - 9_000, started_at=NOW - 9_000)]
    facts = snapshot((node("n1", 8), node("n2", 8)), queue, held)
    facts = Snapshot(
        pools=(Pool(cluster="local", policy=policy),),
        nodes=facts.nodes,
        queue=facts.queue,
        holdings=facts.holdings,
    )
    assert [run_id for run_id in listed(facts)["default"] if run_id != "adas"] == order


def test_a_run_of_a_cluster_without_nodes_is_listed_all_the_same():
    pools = (Pool(cluster="far", name="p", policy=Policy.FAIR_SHARE),)
    run = candidate("r", gang(3), target=Target(cluster="far", pool="p"))
    facts = Snapshot(pools=pools, nodes=nodes(1), queue=(run,), holdings=())
    *_, page = pages(Ledger(facts), NOW)
    assert (page.rules, page.places) == (pools[0], (QueuePlace("r", place=0, acquired=0, needed=3),))


def test_a_holding_whose_nodes_are_gone_is_listed_all_the_same():
    facts = snapshot((), (), [holding("h", {"gone": range(2)})])
    assert [(item.run_id, item.acquired) for item in listing(Ledger(facts))] == [("h", 2)]


@given(situations())
@settings(max_examples=examples(100), deadline=None)
def test_every_run_is_listed_once_and_the_pass_is_not_disturbed(facts: Snapshot):
    ledger = Ledger(facts)
    places = listing(ledger)
    runs = [run.run_id for run in facts.queue] + [item.candidate.run_id for item in facts.holdings]
    assert sorted(item.run_id for item in places) == sorted(runs)
    assert ledger.plan(NOW) == plan(facts, NOW)


@given(situations(), st.integers(1, 6), st.integers(0, 6))
@settings(max_examples=examples(100), deadline=None)
def test_a_part_of_a_queue_is_a_part_of_its_whole(facts: Snapshot, limit: int, after: int):
    ledger = Ledger(facts)
    for whole, page in zip(
        pages(ledger, NOW), pages(ledger, NOW, Part(limit=limit, after=after - 1)), strict=True
    ):
        assert page.places == whole.places[after : after + limit]
        assert page.total == whole.total == len(whole.places)
    owners = {run.run_id: run.owner for run in facts.queue}
    owners |= {item.candidate.run_id: item.candidate.owner for item in facts.holdings}
    for whole, page in zip(pages(ledger, NOW), pages(ledger, NOW, Part(owner="ada", limit=1)), strict=True):
        hers = [place for place in whole.places if owners[place.run_id] == "ada"]
        assert (list(page.places), page.total, page.more) == (hers[:1], len(hers), len(hers) > 1)


def test_runs_that_are_named_are_listed_wherever_they_stand():
    queue = [candidate(f"r{n}", gang(8), submitted_at=NOW + n) for n in range(9)]
    (page,) = pages(Ledger(snapshot(nodes(1), queue)), NOW, Part(limit=2, also=frozenset({"r7"})))
    assert [(place.run_id, place.place) for place in page.places] == [("r0", 0), ("r1", 1), ("r7", 7)]
    assert page.total == 9


def test_the_first_of_a_long_queue_are_listed_without_a_walk_through_all_of_it():
    """N5: counted in calls, a page of 30,000 queued costs what one of 3,000 costs, also that of a user."""

    def work(runs: int, owner: str | None) -> int:
        queue = [
            candidate(f"r{n:05d}", gang(8), submitted_at=NOW + n, owner="ada" if n < 9 else "bob")
            for n in range(runs)
        ]
        ledger = Ledger(snapshot(nodes(1), queue))
        return calls(lambda: pages(ledger, NOW, Part(limit=40, owner=owner)))

    for owner in (None, "ada", "bob"):
        assert work(30_000, owner) < 1.5 * work(3_000, owner)


@given(situations(contested=True))
@settings(max_examples=examples(100), deadline=None)
def test_as_many_are_ahead_as_stand_before_it_and_go_on_waiting(facts: Snapshot):
    """Beside them those may count that start in the same plan after its own turn: shorter runs pass first."""
    ledger = Ledger(facts)
    decided = ledger.plan(NOW)
    gone = {item.run_id for item in (*decided.placements, *decided.refusals)}
    waiting = {run.run_id for run in facts.queue}
    started = {item.run_id for item in decided.placements}
    for page in pages(ledger, NOW):
        before = passing = 0
        for place in page.places:
            if place.run_id not in waiting or place.run_id in gone:
                passing += place.run_id in started
                continue
            answer = explain(ledger, place.run_id, NOW)
            assert isinstance(answer, Waiting)
            if ledger.home(place.run_id) is not None:
                assert before <= answer.ahead <= before + passing
            before += 1


def calls(work: Callable[[], object]) -> int:
    """How many Python functions are called: a measure of work that no other process disturbs."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count
