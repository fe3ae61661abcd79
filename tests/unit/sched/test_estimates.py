"""When queued runs start: the ledger lived on, on time limits or on how long runs took before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from facts import NOW, candidate, gang, holding, node, nodes, snapshot
from situations import situations
from tarmac.model.cluster import LOCAL_CLUSTER, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import Share
from tarmac.model.spec import Target
from tarmac.sched import (
    Durations,
    EstimateBasis,
    Finished,
    Ledger,
    Snapshot,
    plan,
    scope_of_first,
    scope_of_run,
)
from tarmac.sched import estimates as made_of
from tarmac.sched.estimate.estimates import Scope, limit_end
from tarmac.sched.estimate.simulation import RESOLUTION, End, Simulation

NOTHING_KNOWN = Durations()


def history(*lengths: float, **changes) -> Durations:
    durations = Durations()
    base = {"owner": "ada", "project": "default", "name": "", "slots": 8, "time_limit_s": None}
    for length in lengths:
        durations.add(Finished(ran_s=length, **(base | changes)))
    return durations


def scope_of_all(ledger: Ledger) -> Scope:
    """The scope of all queued runs of all pools."""
    facts = ledger.snapshot()
    return Scope(facts, tuple(run.run_id for run in facts.queue))


def estimates(facts: Snapshot | Ledger, now: float, *, until: str | None = None, **options):
    """Of all queued runs, or of one."""
    ledger = facts if isinstance(facts, Ledger) else Ledger(facts)
    return made_of(
        scope_of_all(ledger) if until is None else scope_of_run(ledger, until, now), now, **options
    )


def test_a_run_that_starts_at_once_does_so_now():
    (estimate,) = estimates(
        snapshot(nodes(1), [candidate("r", gang(8))]), NOW, durations=NOTHING_KNOWN
    ).values()
    assert (estimate.start_at, estimate.latest_at) == (NOW, NOW)
    assert estimate.basis is EstimateBasis.TIME_LIMITS


def test_the_start_follows_from_the_time_limits_of_all_that_comes_before():
    held = holding("h", {"n1": range(8)}, time_limit_s=1000.0)  # has run for 100 s
    queue = [
        candidate("second", gang(8), time_limit_s=50.0, position=NOW + 1),
        candidate("first", gang(8), time_limit_s=500.0),
        candidate("third", gang(8), position=NOW + 2),
    ]
    found = estimates(snapshot(nodes(1), queue, [held]), NOW, durations=NOTHING_KNOWN)
    assert {run_id: item.start_at for run_id, item in found.items()} == {
        "first": NOW + 900,
        "second": NOW + 1400,
        "third": NOW + 1450,
    }
    assert all(item.basis is EstimateBasis.TIME_LIMITS for item in found.values())
    assert all(item.latest_at == item.start_at for item in found.values())


def test_whoever_leaves_is_likely_to_leave_soon_and_has_its_grace_at_the_latest():
    """I12: the wait for a block is not the grace of the one before it."""
    pools = (Pool(cluster="local", period_s=7200.0, floor_s=60.0),)
    shared = Share(period_at=NOW // 7200 * 7200, allotted_s=50.0, rank=0)
    held = holding(
        "h", {"n1": range(8)}, mode=Mode.INTERRUPTIBLE, share=shared, granted_at=NOW, grace_s=300.0
    )
    owed = candidate("owed", gang(8), mode=Mode.INTERRUPTIBLE, share=replace(shared, rank=1))
    facts = replace(snapshot(nodes(1), [owed], [held]), pools=pools)
    found = estimates(facts, NOW, durations=NOTHING_KNOWN)["owed"]
    assert found.start_at is not None
    assert NOW + 50 <= found.start_at < NOW + 60
    assert found.latest_at == NOW + 350


def test_without_a_limit_or_a_history_nothing_is_said():
    facts = snapshot(nodes(1), [candidate("r", gang(8))], [holding("h", {"n1": range(8)})])
    (estimate,) = estimates(facts, NOW, durations=NOTHING_KNOWN).values()
    assert (estimate.start_at, estimate.latest_at) == (None, None)
    assert estimate.basis is EstimateBasis.UNKNOWN


def test_history_tells_the_likely_start_and_limits_the_latest():
    held = holding("h", {"n1": range(8)}, time_limit_s=5000.0)
    facts = snapshot(nodes(1), [candidate("r", gang(8))], [held])
    (estimate,) = estimates(facts, NOW, durations=history(*[400.0] * 9)).values()
    assert estimate.start_at == NOW + 300
    assert estimate.latest_at == NOW + 4900
    assert estimate.basis is EstimateBasis.HISTORY


def test_a_limit_sooner_than_the_history_is_what_counts():
    held = holding("h", {"n1": range(8)}, time_limit_s=200.0)
    facts = snapshot(nodes(1), [candidate("r", gang(8))], [held])
    (estimate,) = estimates(facts, NOW, durations=history(*[400.0] * 9)).values()
    assert (estimate.start_at, estimate.latest_at) == (NOW + 100, NOW + 100)
    assert estimate.basis is EstimateBasis.TIME_LIMITS


def test_the_basis_is_that_of_what_the_run_itself_waits_for():
    where = nodes(2)
    queue = [
        candidate("limited", gang(8), target=Target(hostnames=("n1",))),
        candidate("guessed", gang(8), target=Target(hostnames=("n2",))),
    ]
    held = [holding("h1", {"n1": range(8)}, time_limit_s=200.0), holding("h2", {"n2": range(8)})]
    found = estimates(snapshot(where, queue, held), NOW, durations=history(*[400.0] * 9))
    assert found["limited"].basis is EstimateBasis.TIME_LIMITS
    assert found["guessed"].basis is EstimateBasis.HISTORY
    assert found["guessed"].latest_at is None


def test_of_many_runs_the_first_to_end_is_sooner_than_the_middle_of_each():
    lengths = [100.0 * 2**power for power in range(10)]
    held = [
        holding(f"h{slot}", {"n1": [slot]}, granted_at=NOW, started_at=NOW, submitted_at=NOW - slot)
        for slot in range(8)
    ]
    facts = snapshot(nodes(1), [candidate("r", gang(1))], held)
    (estimate,) = estimates(facts, NOW, durations=history(*lengths * 5, slots=1)).values()
    assert estimate.start_at is not None
    assert estimate.start_at - NOW <= 400.0, "the median is 1600 s"


def test_only_the_run_asked_for_is_told_and_an_unknown_one_is_an_error():
    queue = [candidate("r", gang(8)), candidate("other", gang(8))]
    facts = snapshot(nodes(1), queue)
    assert list(estimates(facts, NOW, durations=NOTHING_KNOWN, until="r")) == ["r"]
    with pytest.raises(KeyError, match="stranger"):
        estimates(facts, NOW, durations=NOTHING_KNOWN, until="stranger")


def test_a_bound_on_the_passes_says_so():
    held = holding("h", {"n1": range(8)}, time_limit_s=1000.0)
    queue = [candidate(f"r{n}", gang(8), position=NOW + n, time_limit_s=10.0 * 4**n) for n in range(9)]
    found = estimates(snapshot(nodes(1), queue, [held]), NOW, durations=NOTHING_KNOWN, passes=4)
    told = [found[f"r{n}"].basis for n in range(9)]
    assert told[0] is EstimateBasis.TIME_LIMITS
    assert told[-1] is EstimateBasis.TOO_FAR
    assert found["r8"].start_at is None


def test_a_refused_run_has_no_start():
    (estimate,) = estimates(
        snapshot(nodes(1), [candidate("r", gang(99))]), NOW, durations=NOTHING_KNOWN
    ).values()
    assert estimate.start_at is None


def test_i11_turns_of_cycle_runs_are_lived_through():
    """Two runs of three turns of 90 s take one node in turns; a batch run follows them."""
    queue = [
        candidate("c1", gang(8), mode=Mode.CYCLE),
        candidate("c2", gang(8), mode=Mode.CYCLE, queued_at=NOW + 1),
        candidate("batch", gang(8)),
    ]
    found = estimates(snapshot(nodes(1), queue), NOW, durations=NOTHING_KNOWN)
    assert found["c1"].start_at == NOW
    assert found["c2"].start_at == pytest.approx(NOW + 90, abs=2)
    assert found["batch"].start_at == pytest.approx(NOW + 6 * 90, rel=RESOLUTION, abs=12)


@pytest.mark.parametrize("turns", [1, 2, 5])
def test_i11_as_many_turns_as_a_cycle_run_has_left_are_lived_through(turns):
    """It holds the node (its turn began 20 s ago) and gives it up at last after so many turns of 90 s."""
    held = holding("c", {"n1": range(8)}, mode=Mode.CYCLE, turns_left=turns, started_at=NOW - 20)
    facts = snapshot(nodes(1), [candidate("batch", gang(8))], [held])
    found = estimates(facts, NOW, durations=NOTHING_KNOWN)
    assert found["batch"].start_at == pytest.approx(NOW - 20 + turns * 90, rel=RESOLUTION, abs=12)


def test_i11_a_cycle_run_on_its_way_out_that_queues_again_is_still_to_come():
    leaving = holding("c", {"n1": range(8)}, mode=Mode.CYCLE, turns_left=2, leaving=True)
    queue = [candidate("batch", gang(8))]
    comes_back = replace(leaving, requeues=True)
    for held, start_at in ((leaving, NOW), (comes_back, NOW + 90)):
        found = estimates(snapshot(nodes(1), queue, [held]), NOW, durations=NOTHING_KNOWN)
        assert found["batch"].start_at == pytest.approx(start_at, abs=2)


def test_a_preempted_run_is_back_in_its_queue():
    """The urgent run takes the node from the other, which goes on after it and is the third's business."""
    pools = (Pool(cluster="local", preemption=True, guaranteed_s=60.0),)
    held = holding("h", {"n1": range(8)}, time_limit_s=1000.0)
    queue = (
        candidate("urgent", gang(8), priority=1, time_limit_s=300.0),
        candidate("later", gang(8), position=NOW + 9),
    )
    facts = Snapshot(pools=pools, nodes=nodes(1), queue=queue, holdings=(held,))
    found = estimates(facts, NOW, durations=NOTHING_KNOWN)
    assert found["urgent"].start_at == pytest.approx(NOW)
    assert found["later"].start_at == pytest.approx(NOW + 300 + 900)


def test_i12_blocks_of_a_period_are_lived_through():
    """Three runs share a node in periods: all of them start within the first."""
    pools = (Pool(cluster="local", period_s=3600.0, floor_s=60.0),)
    queue = tuple(
        candidate(f"i{n}", gang(8), mode=Mode.INTERRUPTIBLE, submitted_at=NOW - 5000 + n, queued_at=NOW)
        for n in range(3)
    )
    facts = Snapshot(pools=pools, nodes=nodes(1), queue=queue, holdings=())
    found = estimates(facts, NOW, durations=NOTHING_KNOWN)
    starts = sorted(item.start_at or 0.0 for item in found.values())
    assert starts[0] == NOW
    assert all(NOW <= at <= NOW + 2 * 3600.0 for at in starts)
    assert len(set(starts)) == 3, "one after another"


def test_i12_a_block_is_expected_when_its_period_begins_though_history_has_the_run_before_end_sooner():
    """The run that holds the node has lasted nearly as long as those of the history did."""
    pools = (Pool(cluster="local", period_s=300.0, floor_s=300.0),)
    period_at = NOW // 300 * 300
    held = holding(
        "held", {"n1": range(8)}, mode=Mode.INTERRUPTIBLE, granted_at=period_at, submitted_at=NOW - 900
    )
    waits = candidate("waits", gang(8), mode=Mode.INTERRUPTIBLE, submitted_at=NOW - 800, queued_at=NOW - 800)
    shares = [
        Share(period_at=period_at, allotted_s=allotted_s, rank=rank)
        for rank, allotted_s in enumerate((270.0, 0.0))
    ]
    held = replace(held, candidate=replace(held.candidate, share=shares[0]), started_at=period_at)
    facts = replace(snapshot(nodes(1), [replace(waits, share=shares[1])], [held]), pools=pools)
    soon = history(*[NOW - period_at + 6.0] * 9)
    found = estimates(facts, NOW, durations=soon)["waits"]
    assert found.start_at == pytest.approx(period_at + 300.0, abs=6)
    assert found.basis is EstimateBasis.TIME_LIMITS


def lived(facts: Snapshot) -> dict[str, float]:
    """When runs start if every run ends by its limit: one pass after another, told independently."""
    now, ledger, ends, starts = NOW, Ledger(facts), {}, {}
    for item in facts.holdings:
        begun = NOW if item.started_at is None else item.started_at
        ends[item.candidate.run_id] = (
            NOW + item.grace_s
            if item.leaving
            else max(NOW, begun + item.candidate.time_limit_s - item.candidate.ran_s)
        )
    while True:
        made = ledger.plan(now)
        queued = {run.run_id: run for run in ledger.snapshot().queue}
        for placement in made.placements:
            run = queued[placement.run_id]
            begun = holding(run.run_id, {"n1": [0]}, granted_at=now, started_at=now)
            ledger.hold(replace(begun, candidate=run, allocation=placement.allocation))
            starts[run.run_id] = now
            ends[run.run_id] = now + max(0.0, run.time_limit_s - run.ran_s)
        for refusal in made.refusals:
            ledger.forget(refusal.run_id)
        moments = [*ends.values(), *([made.next_at] if made.next_at is not None else [])]
        if not ends:
            return starts
        now = max(now, min(moments))
        for run_id in [run_id for run_id, at in ends.items() if at <= now]:
            ledger.forget(run_id)
            del ends[run_id]


@given(situations(contested=True), st.lists(st.integers(1, 2000), min_size=12, max_size=12))
@settings(max_examples=examples(100), deadline=None)
def test_a_life_on_limits_is_what_happens_when_limits_are_used_up(facts: Snapshot, limits: list[int]):
    limit = iter(limits)
    facts = replace(
        facts,
        pools=tuple(replace(pool, preemption=False) for pool in facts.pools),
        queue=tuple(replace(run, time_limit_s=float(next(limit))) for run in facts.queue),
        holdings=tuple(
            replace(item, candidate=replace(item.candidate, time_limit_s=float(next(limit))))
            for item in facts.holdings
        ),
    )
    truth = lived(facts)
    life = Simulation(facts, NOW, limit_end, resolution=0.0)
    while life.step():
        pass
    assert {run_id: at for run_id, (at, _) in life.starts.items()} == pytest.approx(truth)


@given(situations())
@settings(max_examples=examples(100), deadline=None)
def test_a_look_ahead_ends_and_leaves_the_ledger_as_it_was(facts: Snapshot):
    ledger = Ledger(facts)
    found = estimates(ledger, NOW, durations=history(*[50.0, 500.0, 5000.0] * 5), passes=60)
    assert set(found) == {run.run_id for run in facts.queue}
    for item in found.values():
        assert (item.start_at is None) == (item.basis in (EstimateBasis.UNKNOWN, EstimateBasis.TOO_FAR))
        assert item.start_at is None or item.start_at >= NOW
        assert item.latest_at is None or (item.start_at is not None and item.latest_at >= item.start_at)
    assert ledger.plan(NOW) == plan(facts, NOW)


@pytest.mark.parametrize("policy", list(Policy))
def test_in_a_life_no_slot_is_held_twice(policy: Policy):
    """Runs of every kind over one node: what starts, leaves and comes back never exceeds it."""
    pools = (Pool(cluster="local", policy=policy, preemption=True, guaranteed_s=20.0, period_s=600.0),)
    queue = tuple(
        candidate(
            f"r{n:02d}",
            gang(1 + n % 5),
            mode=(Mode.BATCH, Mode.BATCH, Mode.INTERRUPTIBLE, Mode.CYCLE)[n % 4],
            owner=f"u{n % 3}",
            priority=n % 3,
            submitted_at=NOW - n,
        )
        for n in range(20)
    )
    facts = Snapshot(pools=pools, nodes=nodes(1), queue=queue, holdings=())
    life = Simulation(facts, NOW, lambda run, ran_s: End(max(0.0, 120.0 - ran_s), EstimateBasis.HISTORY))
    for _ in range(2000):
        going_on = life.step()
        assert sum(held.allocation.slots for held in life._holdings.values()) <= 8
        if not going_on:
            break
    assert set(life.starts) == {run.run_id for run in queue}


def long_queue(runs: int) -> Snapshot:
    """A node of 8 slots that two runs share, and many that wait for a half of it, an hour each."""
    held = [holding(f"h{n}", {"n1": range(4 * n, 4 * n + 4)}, time_limit_s=3600.0) for n in range(2)]
    queue = [candidate(f"r{n:06d}", gang(4), submitted_at=NOW + n, time_limit_s=3600.0) for n in range(runs)]
    return snapshot(nodes(1), queue, held)


def test_the_first_of_a_long_queue_are_estimated_as_they_are_among_all():
    ledger = Ledger(long_queue(3_000))
    first = made_of(scope_of_first(ledger, NOW, 20), NOW, durations=NOTHING_KNOWN)
    assert list(first) == [f"r{n:06d}" for n in range(20)]
    of_all = made_of(scope_of_all(ledger), NOW, durations=NOTHING_KNOWN)
    assert first == {run_id: of_all[run_id] for run_id in first}


def test_the_first_of_a_fair_share_are_estimated_with_the_users_that_are_behind_them():
    """The runs of bob, who has used as much, start between those of ada, who has hundreds before his."""
    few = long_queue(3_000)
    queue = tuple(replace(run, owner="ada" if n < 1_500 else "bob") for n, run in enumerate(few.queue))
    ledger = Ledger(replace(few, queue=queue, pools=(Pool(cluster=LOCAL_CLUSTER, policy=Policy.FAIR_SHARE),)))
    first = made_of(scope_of_first(ledger, NOW, 20), NOW, durations=NOTHING_KNOWN)
    of_all = made_of(scope_of_all(ledger), NOW, durations=NOTHING_KNOWN)
    assert first == {run_id: of_all[run_id] for run_id in first}


def test_the_first_of_each_pool_are_estimated():
    """Also those of a pool behind one with more runs than are estimated."""
    one = long_queue(300)
    moved = tuple(replace(run, run_id=f"s{run.run_id}", target=Target(pool="other")) for run in one.queue)
    queue = tuple(replace(run, target=Target(pool="default")) for run in one.queue)
    ledger = Ledger(replace(one, nodes=(*one.nodes, node("m1", pool="other")), queue=(*queue, *moved)))
    first = made_of(scope_of_first(ledger, NOW, 20), NOW, durations=NOTHING_KNOWN)
    assert len(first) == 40
    assert all(estimate.start_at is not None for estimate in first.values())


def test_what_an_estimate_takes_along_does_not_grow_with_the_queue_behind_it():
    """N5: the scopes of the first page and of an early run are those of a queue of 3,000."""

    def sizes(runs: int) -> list[int]:
        ledger = Ledger(long_queue(runs))
        scopes = (scope_of_first(ledger, NOW, 40), scope_of_run(ledger, "r000100", NOW))
        return [len(scope.facts.queue) for scope in scopes]

    assert sizes(30_000) == sizes(3_000)


def test_before_a_run_far_back_too_much_happens():
    ledger = Ledger(long_queue(20_100))
    scope = scope_of_run(ledger, "r020050", NOW)
    (estimate,) = made_of(scope, NOW, durations=NOTHING_KNOWN).values()
    assert (estimate.start_at, estimate.basis) == (None, EstimateBasis.TOO_FAR)
