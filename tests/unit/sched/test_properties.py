"""Properties of every pass, over random clusters, queues and holdings: safety, determinism, admission."""

from __future__ import annotations

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_facts import queue_of, snapshots, some_nodes, some_runs
from examples import examples
from facts import NOW, snapshot
from tarmac.model.cluster import NodeState, admits
from tarmac.model.codec import replace
from tarmac.model.progress import CauseCode
from tarmac.model.spec import Queueing
from tarmac.sched import Holding, Placement, Snapshot, Waiting, explain, plan


@given(snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_safety_no_slot_twice_and_no_capacity_exceeded(facts: Snapshot):
    by_name = {item.name: item for item in facts.nodes}
    allocations = [holding.allocation for holding in facts.holdings]
    allocations += [placement.allocation for placement in plan(facts, NOW).placements]
    slots: Counter[tuple[str, int]] = Counter()
    cpus: Counter[str] = Counter()
    memory: Counter[str] = Counter()
    for allocation in allocations:
        for placement in allocation.placements:
            slots.update((placement.node, slot) for slot in placement.slots)
            cpus[placement.node] += placement.cpus
            memory[placement.node] += placement.memory_bytes
    assert all(count == 1 for count in slots.values())
    assert all(0 <= slot < by_name[name].capacity.slots for name, slot in slots)
    assert all(used <= by_name[name].capacity.cpus + 1e-6 for name, used in cpus.items())
    assert all(used <= by_name[name].capacity.memory_bytes for name, used in memory.items())


@given(snapshots())
@settings(max_examples=examples(200), deadline=None)
def test_safety_a_gang_starts_whole_and_where_it_may(facts: Snapshot):
    by_name = {item.name: item for item in facts.nodes}
    runs = {run.run_id: run for run in facts.queue}
    for placement in plan(facts, NOW).placements:
        run, placements = runs[placement.run_id], placement.allocation.placements
        homes = [by_name[placement.node] for placement in placements]
        assert len({(home.cluster, home.pool) for home in homes}) == 1
        assert {home.cluster for home in homes} == {placement.allocation.cluster}
        assert all(home.state is NodeState.UP and allows(run.target, home) for home in homes)
        assert [placement.role for placement in placements] == [
            demand.role for demand in run.demands for placement in placements if placement.role == demand.role
        ], "placements come in the order of roles"
        for demand in run.demands:
            check_role(
                demand, [placement for placement in placements if placement.role == demand.role], by_name
            )


def check_role(demand, placements, by_name):
    """A role has exactly what it asked for."""
    assert [placement.replica for placement in placements] == list(range(len(placements)))
    wanted = demand.each.slot_type
    assert all(wanted in (None, by_name[placement.node].capacity.slot_type) for placement in placements)
    assert {(placement.cpus, placement.memory_bytes) for placement in placements} == {
        (demand.each.cpus, demand.each.memory_bytes)
    }
    if demand.slots is not None:
        assert sum(len(placement.slots) for placement in placements) == demand.slots
        assert len({placement.node for placement in placements}) == len(placements), "one placement per node"
        assert demand.uneven or len({len(placement.slots) for placement in placements}) == 1, (
            "equal parts unless asked"
        )
        return
    assert len(placements) == demand.replicas
    assert {len(placement.slots) for placement in placements} == {demand.each.slots}
    if demand.empty:
        assert len({placement.node for placement in placements}) == 1


def allows(target, home):
    return (
        admits(home.cluster, target.cluster)
        and target.pool in (None, home.pool)
        and target.shard in (None, home.shard)
        and (not target.hostnames or home.hostname in target.hostnames)
        and home.hostname not in target.excluded
    )


@given(snapshots(), st.randoms(use_true_random=False))
@settings(max_examples=examples(100), deadline=None)
def test_the_order_of_the_facts_does_not_matter(facts: Snapshot, shuffler):
    def shuffled(items):
        mixed = list(items)
        shuffler.shuffle(mixed)
        return tuple(mixed)

    other = replace(
        facts,
        nodes=shuffled(facts.nodes),
        queue=shuffled(facts.queue),
        holdings=shuffled(facts.holdings),
    )
    assert plan(other, NOW) == plan(facts, NOW)


@given(snapshots())
@settings(max_examples=examples(100), deadline=None)
def test_explaining_agrees_with_planning(facts: Snapshot):
    made = plan(facts, NOW)
    decided = {item.run_id: item for item in (*made.placements, *made.refusals)}
    for run in facts.queue:
        answer = explain(facts, run.run_id, NOW)
        if isinstance(answer, Waiting):
            assert run.run_id not in decided
            assert answer.reasons
            assert answer.unblocked_by
        else:
            assert answer == decided[run.run_id]


@given(snapshots())
@settings(max_examples=examples(100), deadline=None)
def test_a_second_pass_places_nothing_more(facts: Snapshot):
    """What a pass leaves waiting does not fit what it leaves free."""
    made = plan(facts, NOW)
    started = {placement.run_id: placement.allocation for placement in made.placements}
    gone = started.keys() | {refusal.run_id for refusal in made.refusals}
    newer = tuple(
        Holding(
            candidate=run,
            allocation=started[run.run_id],
            granted_at=NOW,
            started_at=None,
            checkpoint_at=None,
            leaving=False,
        )
        for run in facts.queue
        if run.run_id in started
    )
    after = replace(
        facts,
        queue=tuple(run for run in facts.queue if run.run_id not in gone),
        holdings=facts.holdings + newer,
    )
    assert plan(after, NOW).placements == ()


@given(some_nodes, some_runs)
@settings(max_examples=examples(200), deadline=None)
def test_refused_exactly_when_no_arrangement_on_the_empty_cluster_exists(where, run):
    run = {**run, "queueing": Queueing.WAIT}
    refusals = plan(snapshot(where, queue_of([run])), NOW).refusals
    assert bool(refusals) == (not any_arrangement(where, run["demands"], run["target"]))
    assert all(refusal.code is CauseCode.NEVER_FITS for refusal in refusals)


@given(some_nodes, some_runs)
@settings(max_examples=examples(100), deadline=None)
def test_what_is_admitted_starts_on_the_empty_cluster(where, run):
    up = tuple(replace(item, state=NodeState.UP) for item in where)
    answer = explain(snapshot(up, queue_of([run])), "r0", NOW)
    assert isinstance(answer, Placement) or answer.code is CauseCode.NEVER_FITS


def any_arrangement(where, demands, target) -> bool:
    """By brute force: whether the run fits the nodes of some pool, split as it may be."""
    pools = {(item.cluster, item.pool) for item in where}
    return any(
        fits([item for item in where if (item.cluster, item.pool) == pool and allows(target, item)], demands)
        for pool in pools
    )


def fits(where, demands) -> bool:
    free = [(item.capacity.slots, item.capacity.cpus, item.capacity.memory_bytes) for item in where]
    types = [item.capacity.slot_type for item in where]
    return bool(where) and _fits(free, types, list(demands))


def _fits(free, types, demands) -> bool:
    if not demands:
        return True
    demand, *rest = demands
    return any(_fits(left, types, rest) for left in _arrangements(free, types, demand))


def _arrangements(free, types, demand):
    """What is left on each node, for every way to put a role there."""
    each = demand.each
    amount = demand.slots if demand.slots is not None else demand.replicas
    choices = []
    for (slots, cpus, memory), kind in zip(free, types, strict=True):
        left = {0: (slots, cpus, memory)}
        for count in range(1, amount + 1):
            copies = 1 if demand.slots is not None else count
            need = count if demand.slots is not None else count * each.slots
            rest = (slots - need, cpus - copies * each.cpus, memory - copies * each.memory_bytes)
            if each.slot_type in (None, kind) and min(rest) >= 0:
                left[count] = rest
        choices.append(left)
    for counts in product(*choices):
        equal = demand.slots is None or demand.uneven or len({count for count in counts if count}) == 1
        if sum(counts) == amount and equal:
            yield [choices[index][count] for index, count in enumerate(counts)]
