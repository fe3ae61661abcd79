"""The scheduler's facts: kept up to date at the cost of what changed, asked without holding anybody up."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, Thread

import pytest

from actors import ADA, member
from facts import NOW, candidate, gang, snapshot
from scratch_store import ScratchStore
from sim_engine import Behaviour
from simulated import Server, Simulation, nodes, spec
from tarmac.control.loops import LEAST_REST_S, rest_s
from tarmac.control.service import ControlPlane, Submission
from tarmac.control.state.run_cache import Change
from tarmac.control.state.scheduler_state import Estimator, SchedulerState
from tarmac.model.changes import UsageBucket
from tarmac.model.cluster import LOCAL_CLUSTER, Node, NodeState, Policy, Pool
from tarmac.model.codec import replace
from tarmac.model.lifecycle import Mode, RunEvent, RunState
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.sched import Candidate, Ledger, Plan, Scope, scope_of_first

LIMIT_S = 120.0


def simulated(**rules: object) -> Simulation:
    """One node of four slots, in a pool with these rules; runs work for 200 s."""
    return Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=200.0, checkpoint_period_s=10.0),
        cluster=nodes(1, 4),
        pools=[Pool(cluster=LOCAL_CLUSTER, **rules)],
    )


def submit(plane: ControlPlane, user: str = "ada", **wanted: object) -> Run:
    return plane.submit([Submission(spec=spec(**wanted), actor=member(user))])[0].run


class CountingLedger(Ledger):
    """A ledger that counts its plans, the changes of its cluster, and the runs that it sorted in alone."""

    def __init__(self) -> None:
        self.plans = 0
        self.clusters = 0
        self.alone = 0
        super().__init__()

    def queue(self, candidate: Candidate) -> None:
        self.alone += 1
        super().queue(candidate)

    def plan(self, now: float) -> Plan:
        self.plans += 1
        return super().plan(now)

    def set_cluster(self, pools: tuple[Pool, ...], nodes: tuple[Node, ...]) -> None:
        self.clusters += 1
        super().set_cluster(pools, nodes)


class News:
    """What the scheduler learns: the nodes, and the runs that changed since it last asked."""

    def __init__(self) -> None:
        self.nodes: tuple[Node, ...] = tuple(nodes(1, 4))
        self.changes: list[Change] = []

    def __call__(self) -> tuple[tuple[Pool, ...], tuple[Node, ...], list[Change], list[UsageBucket]]:
        told, self.changes = self.changes, []
        return (), self.nodes, told, [], ((), ())


def test_answers_do_not_wait_for_slow_estimates() -> None:
    """They have the last known ones, and a loop is woken, whose pass makes those that are missing once."""
    ledger = Ledger(snapshot(nodes(1, 4), [candidate("r1", gang(4))]))
    woken: list[str] = []
    estimator = Estimator(ScratchStore(), wake=lambda: woken.append("woken"), slow_s=0.0)

    def scope(most: int) -> Scope:
        woken.clear()
        return scope_of_first(ledger, NOW, most)

    def first(*run_ids: str) -> set[str]:
        return set(estimator.first_estimates(run_ids, scope, 10, NOW))

    assert (first("r1"), woken) == (set(), ["woken"])
    estimator.renew(scope, NOW)
    assert (first("r1"), woken) == ({"r1"}, [])
    ledger.queue(candidate("r2", gang(4)))
    assert first("r1") == first("r1", "r2") == {"r1"}
    estimator.renew(scope, NOW)
    assert (first("r1", "r2"), woken) == ({"r1", "r2"}, [])
    woken.append("nothing is due")
    estimator.renew(scope, NOW)
    assert woken == ["nothing is due"]


def test_a_guess_waits_for_no_estimate() -> None:
    """I2: plans guess by ended runs while a long estimate is made."""
    simulation, asked, answered = simulated(), Event(), Event()

    class LongIds(tuple[str, ...]):
        def __iter__(self) -> Iterator[str]:
            asked.set()
            assert answered.wait(LIMIT_S)
            return super().__iter__()

    for _ in range(6):
        submit(simulation.server.plane, slots=4)
    simulation.settle()
    estimator = Estimator(simulation.store, wake=list)
    estimator.renew(lambda _most: pytest.fail("no answer asked for estimates"), NOW)
    scope = Scope(snapshot(nodes(1, 4)), LongIds(), too_far=True)
    asking = Thread(target=lambda: estimator.estimates(scope, NOW))
    asking.start()
    assert asked.wait(LIMIT_S)
    guess = estimator.durations().guess_slot_s(candidate("r", gang(4)))
    answered.set()
    asking.join(LIMIT_S)
    assert (asking.is_alive(), guess) == (False, pytest.approx(800.0, rel=0.05))


def test_what_changed_nothing_is_not_planned_again() -> None:
    """S: a pass on a cluster where nothing happens costs nothing, however long the queue."""
    news, ledger = News(), CountingLedger()
    scheduler_state = SchedulerState(news, ledger)
    up = news.nodes
    news.nodes = tuple(replace(node, state=NodeState.DRAINED) for node in up)
    news.changes = [("r1", candidate("r1", gang(4)))]
    scheduler_state.plan(NOW)
    before = ledger.plans
    for _ in range(10):
        assert scheduler_state.plan(NOW).placements == ()
    assert ledger.plans == before
    news.nodes = up
    assert [placement.run_id for placement in scheduler_state.plan(NOW).placements] == ["r1"]
    assert scheduler_state.plan(NOW).placements, "what was decided and not recorded is decided again"


def test_a_plan_is_made_again_when_it_wanted_to_be() -> None:
    """A moment comes that changes no fact: nobody says so, and yet the next plan is made."""
    news = News()
    wanted = iter([Plan(next_at=NOW + 10.0), Plan(next_at=NOW + 30.0), Plan()])

    class Scripted(Ledger):
        def plan(self, now: float) -> Plan:
            return next(wanted)

    scheduler_state = SchedulerState(news, Scripted())
    moments = [NOW, NOW + 9.0, NOW + 10.0, NOW + 29.0, NOW + 31.0, NOW + 1e9]
    found = [scheduler_state.plan(moment).next_at for moment in moments]
    assert found == [NOW + 10.0, NOW + 10.0, NOW + 30.0, NOW + 30.0, None, None]


def test_the_runs_of_a_start_are_sorted_at_once() -> None:
    """N5: a server that starts with a long queue does not sort in each of its runs alone."""
    news, ledger = News(), CountingLedger()
    scheduler_state = SchedulerState(news, ledger)
    news.changes = [(f"r{n}", candidate(f"r{n}", gang(4), submitted_at=NOW - n)) for n in range(9)]
    assert [placement.run_id for placement in scheduler_state.plan(NOW).placements] == ["r8"]
    assert ledger.alone == 0
    news.changes = [("r9", candidate("r9", gang(4), submitted_at=NOW - 9))]
    assert [placement.run_id for placement in scheduler_state.plan(NOW).placements] == ["r9"]
    assert ledger.alone == 1


def test_nodes_are_told_again_only_when_they_changed() -> None:
    news, ledger = News(), CountingLedger()
    scheduler_state = SchedulerState(news, ledger)
    before = ledger.clusters
    for number in range(5):
        news.changes = [(f"r{number}", candidate(f"r{number}", gang(1)))]
        scheduler_state.plan(NOW)
    assert ledger.clusters == before + 1
    news.nodes = tuple(replace(node, state=NodeState.DRAINED) for node in news.nodes)
    scheduler_state.plan(NOW)
    assert ledger.clusters == before + 2


def test_a_long_question_holds_up_no_submission() -> None:
    """I2: a plan that takes long must not delay the answer to `tarmac run`."""
    plane = simulated().server.plane
    asked, answered = Event(), Event()

    def question(_ledger: Ledger) -> bool:
        asked.set()
        return answered.wait(LIMIT_S)

    asking = Thread(target=lambda: plane.control.scheduler_state.ask(question))
    asking.start()
    assert asked.wait(LIMIT_S)
    run = submit(plane, slots=1)
    assert plane.pause(ADA, run.id).state is RunState.PAUSED
    answered.set()
    asking.join(LIMIT_S)
    assert not asking.is_alive()


def test_the_plan_says_when_the_turn_of_a_cycle_run_is_over() -> None:
    """I11: nothing happens meanwhile, and yet it is preempted in time."""
    simulation = simulated(turn_s=90.0)
    run = submit(simulation.server.plane, slots=1, mode=Mode.CYCLE)
    simulation.turn_all()
    simulation.turn_all()
    began_at = simulation.store.run(run.id).started_at
    simulation.server.turn("schedule")
    assert simulation.server.plan_at == began_at + 90.0
    simulation.settle()
    ended = simulation.store.run(run.id)
    assert (ended.outcome, ended.turns, ended.preemptions) == (Outcome.COMPLETED, 3, 0)
    assert ended.cycle_report.proven
    attempts = simulation.store.attempts(run.id)
    assert [
        attempt.leave_requested_at - attempt.started_at for attempt in attempts if attempt.leave_requested_at
    ] == [90.0, 90.0]


@pytest.mark.parametrize(
    ("next_at", "expected"),
    [(None, 1.0), (100.25, 0.25), (105.0, 1.0), (100.0, LEAST_REST_S), (3.0, LEAST_REST_S)],
)
def test_a_loop_wakes_when_its_pass_wanted_it(next_at: float | None, expected: float) -> None:
    assert rest_s(next_at, now=100.0, period_s=1.0) == expected


def test_shares_are_recorded_once_and_used_in_the_same_pass() -> None:
    """I12: two runs of the whole node share a period; the first starts at once."""
    simulation = simulated(period_s=1000.0, floor_s=10.0)
    plane = simulation.server.plane
    simulation.clock.advance_to(1_000_990.0)
    runs = [submit(plane, slots=4, mode=Mode.INTERRUPTIBLE) for _ in range(2)]
    simulation.clock.advance_to(1_001_000.0)
    simulation.server.turn("schedule")
    found = [simulation.store.run(run.id) for run in runs]
    assert [run.share is not None and run.share.period_at for run in found] == [1_001_000.0, 1_001_000.0]
    assert sorted(run.state for run in found) == [RunState.QUEUED, RunState.STARTING]
    assert [event.event for event in plane.events(ADA, found[0].id)][:2] == [
        RunEvent.ACCEPTED,
        RunEvent.STAGED,
    ]
    granted = [run.share for run in found]
    simulation.start()
    simulation.clock.advance(1.0)
    simulation.server.turn("schedule")
    assert [simulation.store.run(run.id).share for run in runs] == granted


def test_a_decision_that_was_overtaken_is_made_again_by_itself() -> None:
    simulation = simulated()
    plane = simulation.server.plane
    run = submit(plane, slots=1)
    rival = simulation.another()
    rivals = iter([rival.plane.pause])
    wakeup = plane.control.event_bus.event("schedule")

    def interrupt() -> None:
        for pause in rivals:
            pause(ADA, run.id)

    wakeup.clear()
    simulation.store.interrupt = interrupt
    simulation.server.turn("schedule")
    assert simulation.store.run(run.id).state is RunState.PAUSED
    assert wakeup.is_set()


def test_what_another_server_ended_counts_in_a_fair_share() -> None:
    """D13: two servers on one database; one ends the attempts, the other plans."""
    simulation = simulated(policy=Policy.FAIR_SHARE)
    planning, other = simulation.server, simulation.another()
    greedy = submit(planning.plane, "ada", slots=4, time_limit_s=100.0)
    planning.turn("schedule")
    planning.turn("deliver")
    simulation.clock.advance(50.0)
    for server, loop in ((other, "reconcile"), (planning, "schedule")):
        server.turn(loop)
    other.plane.stop(ADA, greedy.id)
    _deliver(other, simulation)
    late = [submit(planning.plane, user, slots=4) for user in ("ada", "bob")]
    planning.turn("schedule")
    assert [simulation.store.run(run.id).state for run in late] == [RunState.QUEUED, RunState.STARTING]
    (used,) = planning.plane.control.scheduler_state.snapshot().usage
    assert (used.user, used.slot_s) == ("ada", 4 * (50.0 + 16.0))


def _deliver(server: Server, simulation: Simulation) -> None:
    """Let the other server pass on the stop and record the end, then let the first one read of it."""
    simulation.clock.advance(16.0)
    server.turn("deliver")
    server.turn("reconcile")
    simulation.clock.advance(1.0)


def test_runs_get_a_guess_by_those_that_ended_where_usage_orders() -> None:
    """A run keeps it while it holds slots. Runs with a time limit, and in other policies, have none."""

    def guesses(policy: Policy, **wanted: object) -> list[float | None]:
        simulation = simulated(policy=policy)
        plane = simulation.server.plane
        for _ in range(6):
            submit(plane, slots=4)
        simulation.settle()
        for _ in range(2):
            submit(plane, slots=4, **wanted)
        simulation.turn_all()
        simulation.turn_all()
        facts = plane.control.scheduler_state.snapshot()
        (held,), (queued,) = facts.holdings, facts.queue
        return [held.candidate.guess_slot_s, queued.guess_slot_s]

    assert guesses(Policy.LEAST_ATTAINED) == pytest.approx([800.0, 800.0], rel=0.05)
    assert guesses(Policy.LEAST_ATTAINED, time_limit_s=900.0) == [None, None]
    assert guesses(Policy.PRIORITY) == [None, None]
