"""Later runs may pass those that cannot start, but they delay nobody whose start is known."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from facts import BACKFILL_WINDOW_S, NOW, candidate, gang, holding, node, nodes, replicas, snapshot, started
from lives import Life
from tarmac.model.codec import replace
from tarmac.sched import Ledger, plan
from tarmac.sched.cycle.cycle import Cycle
from tarmac.sched.cycle.pool_cycle import WAIT_RATIO


def promises(ledger, now):
    """For which runs nodes are reserved now: until when, and which."""
    current = Cycle(ledger, now)
    current.run()
    for pool in current.pools.values():
        pool.protect()
    kept = {
        reservation.run_id: reservation
        for pool in current.pools.values()
        for reservation in pool.reservations
    }
    current.close()
    return kept


some_runs = st.lists(
    st.tuples(
        st.one_of(st.integers(1, 12).map(gang), st.builds(replicas, st.integers(1, 3), st.integers(1, 4))),
        st.integers(0, 2000),
        st.integers(1, 3000),
        st.sampled_from([1.0, 1.0, 1.5, 4.0]),
        st.sampled_from([None, "east", "west"]),
    ),
    min_size=2,
    max_size=25,
)


@given(st.integers(2, 4), st.integers(3, 6), some_runs)
@settings(max_examples=examples(100), deadline=None)
def test_m3_backfill_never_delays_the_known_start_of_what_is_ordered_before(count, slots, runs):
    """Whoever is first in the queue starts no later than at any moment it was promised while it was first."""
    shards = ("east", "west")
    where = tuple(node(f"n{index}", slots, shard=shards[index % 2]) for index in range(count))
    submissions = [
        (
            NOW + at,
            candidate(
                f"r{index}",
                demand,
                time_limit_s=long_s * slack,
                target=replace(candidate("x").target, shard=shard),
            ),
            float(long_s),
        )
        for index, (demand, at, long_s, slack, shard) in enumerate(runs)
    ]
    promised: dict[str, float] = {}

    def look(life, made):
        waiting = sorted(life.queue.values(), key=lambda run: (run.submitted_at, run.run_id))
        kept = promises(life.ledger, life.now)
        for placement in made.placements:
            run = life.queue[placement.run_id]
            for run_id, reservation in kept.items():
                shared = set(reservation.nodes) & set(placement.allocation.nodes)
                if run_id != run.run_id and shared:
                    earlier = (run.submitted_at, run.run_id) < (life.queue[run_id].submitted_at, run_id)
                    spare = {name: slots for name, (slots, *_) in reservation.spare}
                    takes = Counter({item.node: len(item.slots) for item in placement.allocation.placements})
                    in_time = earlier or life.now + run.time_limit_s <= reservation.at
                    assert in_time or all(takes[name] <= spare.get(name, 0) for name in shared)
        if waiting and waiting[0].run_id in kept:
            run_id = waiting[0].run_id
            promised[run_id] = min(promised.get(run_id, kept[run_id].at), kept[run_id].at)

    life = Life(where, submissions).run(before=look)
    assert {run_id: at for run_id, at in promised.items() if life.started_at[run_id] > at} == {}


def test_m3_where_the_start_is_known_nodes_are_kept_at_once():
    queue = [
        candidate("big", gang(8)),
        candidate("long", gang(4)),
        candidate("short", gang(4), time_limit_s=400),
    ]
    facts = snapshot(nodes(1), queue, [holding("h", {"n1": range(4)}, time_limit_s=500.0)])
    assert started(plan(facts, NOW)) == ["short"], "h ends in 400 s: what lasts longer may not pass"


def test_m3_where_it_is_not_known_smaller_runs_pass_until_the_backfill_window_is_over():
    queue = [candidate("big", gang(8), queued_at=NOW - 1), candidate("long", gang(4))]
    facts = snapshot(
        nodes(1), queue, [holding("h", {"n1": range(4)}, granted_at=NOW - 2 + BACKFILL_WINDOW_S)]
    )
    assert started(plan(facts, NOW)) == ["long"]
    assert started(plan(facts, NOW - 1 + BACKFILL_WINDOW_S)) == []


def test_m3_nodes_are_not_kept_where_those_it_waits_for_have_run_long_beside_its_wait():
    """Who has run for long is likely to go on for long: until then the free half would stand idle."""
    ran_s = BACKFILL_WINDOW_S

    def passed(waited_s):
        big = candidate("big", gang(8), queued_at=NOW - waited_s)
        held = holding("h", {"n1": range(4)}, granted_at=NOW - ran_s)
        return started(plan(snapshot(nodes(1), [big, candidate("long", gang(4))], [held]), NOW)) == ["long"]

    assert passed(WAIT_RATIO * ran_s - 1)
    assert not passed(WAIT_RATIO * ran_s)


def test_the_first_run_alone_is_protected():
    held = [holding(f"h{i}", {f"n{i}": range(4)}, time_limit_s=500.0 + i) for i in range(1, 4)]
    queue = [candidate(f"big{i}", replicas(1, 8)) for i in range(1, 4)]
    kept = promises(Ledger(snapshot(nodes(3), [*queue, candidate("z", gang(1))], held)), NOW)
    assert {run_id: (reservation.at, reservation.nodes) for run_id, reservation in kept.items()} == {
        "big1": (NOW + 401, ("n1",))
    }


def test_a_run_that_asks_for_nothing_may_use_kept_nodes():
    queue = [candidate("big", gang(8)), candidate("log", replicas(1)), candidate("long", gang(1))]
    facts = snapshot(nodes(1), queue, [holding("h", {"n1": range(4)}, time_limit_s=500.0)])
    assert started(plan(facts, NOW)) == ["log"]


def test_nodes_on_their_way_out_are_kept_for_whom_they_leave():
    queue = [candidate("big", gang(8)), candidate("short", gang(4), time_limit_s=1.0)]
    facts = snapshot(nodes(1), queue, [holding("h", {"n1": range(4)}, leaving=True)])
    assert started(plan(facts, NOW)) == []


def test_the_shorter_of_runs_alike_starts_though_a_longer_one_is_asked_first():
    limits = (1000.0, 600.0, 399.0, 512.0, 400.0)
    alike = [candidate(f"s{index}", gang(1), time_limit_s=limit_s) for index, limit_s in enumerate(limits)]
    facts = snapshot(
        nodes(1),
        [candidate("big", gang(8)), *alike],
        [holding("h", {"n1": range(4)}, time_limit_s=500.0)],
    )
    assert started(plan(facts, NOW)) == ["s2", "s4"]


def test_shorter_runs_pass_first_but_a_bigger_priority_before_them():
    held = [holding("h", {"n1": range(6)}, time_limit_s=10_100.0)]
    big = candidate("a-big", gang(8), priority=2)
    long, short = candidate("b", gang(1), time_limit_s=900.0), candidate("c", gang(1), time_limit_s=90.0)

    def passed(*queue):
        return started(plan(snapshot(nodes(1), [big, *queue], held), NOW))

    assert passed(long, short, candidate("e", gang(1), time_limit_s=700.0)) == ["c", "b"]
    assert passed(replace(long, priority=1), short) == ["b", "c"]
    assert passed(candidate("b", gang(1)), replace(short, time_limit_s=10_001.0)) == []


def test_what_the_first_run_leaves_free_on_its_nodes_others_may_take_for_longer():
    held = [holding("h", {"n1": range(6)}, time_limit_s=500.0)]
    queue = [candidate("first", gang(5)), candidate("x", gang(2)), candidate("y", gang(1))]
    facts = snapshot(nodes(1), queue, held)
    assert started(plan(facts, NOW)) == ["x"], "3 slots are left beside it: 2 of them now"
    queue = [candidate("first", gang(7)), *queue[1:], candidate("z", gang(1))]
    assert started(plan(snapshot(nodes(1), queue, held), NOW)) == ["y"], "1 slot is left, and y takes it"
    memory = candidate("z", gang(1, memory_bytes=1))
    where = nodes(1, memory_bytes=8)
    first = candidate("first", gang(5, memory_bytes=8))
    assert started(plan(snapshot(where, [first, memory], held), NOW)) == [], "it leaves slots, but no memory"
