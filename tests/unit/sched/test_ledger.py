"""A ledger that is kept up to date knows what one made anew would: over random changes, in any order."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_facts import some_nodes, some_runs
from examples import examples
from facts import NOW, candidate, gang, holding, layout, node, nodes, replicas, snapshot, started
from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import NodeState, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.progress import Share
from tarmac.sched import Holding, Ledger, PreemptionReason

RUNS_CHANGE = ("queue", "queue", "carry", "forget", "start", "leave", "requeue")
CLUSTER_CHANGES = ("state", "nodes", "rules", "usage", "wait")

some_rules = st.lists(
    st.builds(
        Pool,
        cluster=st.sampled_from(["local", "x"]),
        name=st.sampled_from(["default", "big"]),
        policy=st.sampled_from(list(Policy)),
        preemption=st.booleans(),
        guaranteed_s=st.sampled_from([0.0, 30.0]),
        period_s=st.just(500.0),
        floor_s=st.just(50.0),
    ),
    max_size=3,
    unique_by=lambda pool: pool.key,
).map(tuple)

some_changes = st.lists(
    st.tuples(
        st.sampled_from([*RUNS_CHANGE, *RUNS_CHANGE, *CLUSTER_CHANGES]),
        st.integers(0, 1000),
        some_runs,
        some_nodes,
        some_rules,
    ),
    min_size=1,
    max_size=14,
)


class World:
    """Facts that change, told to a ledger one by one."""

    def __init__(self, where):
        self.ledger = Ledger(snapshot(where))
        self.now = NOW
        self.count = 0

    def change(self, what, number, run, where, rules):
        """One change, of whatever is there to be changed."""
        facts = self.ledger.snapshot()
        run_ids = [item.run_id for item in facts.queue] + [held.candidate.run_id for held in facts.holdings]
        held = facts.holdings[number % len(facts.holdings)] if facts.holdings else None
        match what:
            case "queue":
                self.count += 1
                self.ledger.queue(candidate(f"r{self.count}", owner=f"u{number % 3}", **run))
            case "carry":
                self.carry_out(number)
            case "forget" if run_ids:
                self.ledger.forget(run_ids[number % len(run_ids)])
            case "start" if held:
                self.ledger.hold(replace(held, started_at=self.now))
            case "leave" if held:
                self.ledger.hold(replace(held, leaving=True))
            case "requeue" if held:
                share = Share(period_at=NOW, allotted_s=100.0, rank=number % 3, used_s=float(number % 120))
                used = held.candidate.attained_slot_s + held.allocation.slots * 100
                self.ledger.queue(
                    replace(held.candidate, queued_at=self.now, attained_slot_s=used, share=share)
                )
            case "state":
                index = number % len(facts.nodes)
                state = list(NodeState)[number % len(NodeState)]
                changed = replace(facts.nodes[index], state=state)
                self.ledger.set_cluster(
                    facts.pools, (*facts.nodes[:index], changed, *facts.nodes[index + 1 :])
                )
            case "nodes":
                self.ledger.set_cluster(facts.pools, where)
            case "rules":
                self.ledger.set_cluster(rules, facts.nodes)
            case "usage":
                usage = UsageBucket(
                    cluster="local",
                    pool="default",
                    user="u1",
                    project="p",
                    hour_at=NOW - number,
                    slot_s=number,
                )
                self.ledger.add_usage([usage])
            case "wait":
                self.now += number

    def carry_out(self, number):
        """Do some of what is planned: others may be stale by the time they are recorded."""
        made = self.ledger.plan(self.now)
        queued = {item.run_id: item for item in self.ledger.snapshot().queue}
        for index, placement in enumerate(made.placements):
            if (number >> index) % 2 == 0:
                self.ledger.hold(
                    Holding(
                        candidate=queued[placement.run_id],
                        allocation=placement.allocation,
                        granted_at=self.now,
                        started_at=None,
                        checkpoint_at=None,
                        leaving=False,
                    )
                )
        for refusal in made.refusals:
            self.ledger.forget(refusal.run_id)


@given(some_nodes, some_changes)
@settings(max_examples=examples(150), deadline=None)
def test_i11_a_kept_ledger_plans_like_one_made_anew(where, changes):
    world = World(where)
    for change in changes:
        world.change(*change)
        facts = world.ledger.snapshot()
        made = world.ledger.plan(world.now)
        assert made == Ledger(facts).plan(world.now), change
        assert world.ledger.snapshot() == facts, "a plan changes no fact"
        assert made == world.ledger.plan(world.now), "nor what is planned next"


@given(some_nodes, some_changes, st.randoms(use_true_random=False))
@settings(max_examples=examples(75), deadline=None)
def test_the_order_in_which_facts_came_does_not_matter(where, changes, shuffler):
    world = World(where)
    for change in changes:
        world.change(*change)
    facts = world.ledger.snapshot()
    other = Ledger()
    told = [(other.queue, item) for item in facts.queue] + [(other.hold, item) for item in facts.holdings]
    told.append((lambda cluster: other.set_cluster(*cluster), (facts.pools, facts.nodes)))
    told.append((other.add_usage, facts.usage))
    shuffler.shuffle(told)
    for tell, fact in told:
        tell(fact)
    assert other.plan(world.now) == world.ledger.plan(world.now)


def test_a_copy_is_another_ledger():
    ledger = Ledger(snapshot(nodes(1), [candidate("r", gang(8))]))
    copy = Ledger(ledger.snapshot())
    copy.forget("r")
    assert started(copy.plan(NOW)) == []
    assert started(ledger.plan(NOW)) == ["r"]


def test_what_was_planned_but_not_carried_out_is_planned_again():
    queue = [candidate("a", replicas(2, 3)), candidate("b", replicas(1, 2))]
    ledger = Ledger(snapshot(nodes(2, 4), queue))
    assert started(ledger.plan(NOW)) == ["a"]
    ledger.forget("a")
    assert started(ledger.plan(NOW)) == ["b"], "b was passed over for a, which never came to hold anything"


def test_a_node_that_comes_back_carries_what_it_carried():
    ledger = Ledger(snapshot(nodes(1), [candidate("r", gang(4))], [holding("h", {"n1": range(6)})]))
    down = node("n1", state=NodeState.DOWN)
    ledger.set_cluster((), (down,))
    assert started(ledger.plan(NOW)) == []
    ledger.set_cluster((), nodes(1))
    assert started(ledger.plan(NOW)) == []
    ledger.forget("h")
    assert started(ledger.plan(NOW)) == ["r"]


def test_a_run_known_before_its_node_takes_its_slots_once_the_node_is_known():
    ledger = Ledger(snapshot((), [candidate("r", gang(8))], [holding("h", {"n1": range(6)})]))
    assert ledger.plan(NOW).refusals == ()
    ledger.set_cluster((), nodes(2))
    assert layout(ledger.plan(NOW), "r") == [("n2", 8)]


def test_d13_a_run_moved_to_another_pool_waits_there_and_gives_way_where_it_is():
    where = (node("a1", 4), node("b1", 4, pool="b"))
    ledger = Ledger(snapshot(where, [candidate("q", gang(4), pool="b")]))
    assert layout(ledger.plan(NOW), "q") == [("b1", 4)]
    held = holding("h", {"a1": range(4)}, pool="b")
    ledger.hold(held)
    (preemption,) = ledger.plan(NOW).preemptions
    assert (preemption.run_id, preemption.reason) == ("h", PreemptionReason.POOL_CHANGED)
    ledger.hold(replace(held, leaving=True))
    assert ledger.plan(NOW).preemptions == (), "once is enough"


@pytest.mark.parametrize("pool", [None, "b"])
def test_a_run_that_names_no_pool_uses_what_another_one_leaves(pool):
    where = (node("a1", 4), node("b1", 4, pool="b"))
    queue = [candidate("q", gang(4), target=replace(candidate("q").target, pool="default"))]
    facts = snapshot(where, [*queue, candidate("r", gang(4), pool=pool)], [holding("h", {"a1": [0]})])
    assert layout(Ledger(facts).plan(NOW), "r") == [("b1", 4)]


def test_a_pools_own_runs_come_before_those_that_spill_over():
    where = (node("a1", 4), node("b1", 4, pool="b"))
    home = replace(candidate("q").target, pool="b")
    queue = [candidate("r", gang(4), priority=9), candidate("z", gang(4), target=home)]
    facts = snapshot(where, queue, [holding("h", {"a1": [0]})])
    assert started(Ledger(facts).plan(NOW)) == ["z"]
