"""Histories with a cluster that has a queue of its own: closed for days, forgetful, out of reach."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from actors import ADA
from examples import seeds
from promises import Promises
from seeded import BATCH, History
from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.service import Submission
from tarmac.model.lifecycle import AttemptState, Mode, RunEvent, RunState
from tarmac.model.progress import Outcome
from tarmac.model.spec import Target
from tarmac.node.attempt.document import Launch

SEEDS_PER_CASE = 30
CASES = 10


@pytest.mark.seeded
@pytest.mark.parametrize("case", range(CASES))
def test_safety_and_liveness_where_a_cluster_has_a_queue_of_its_own(case: int) -> None:
    """What waits there waits for days if need be, and is neither lost nor started twice."""
    for seed in seeds(SEEDS_PER_CASE, case=case):
        try:
            History(seed, batch=True).run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error


def test_usage_that_another_server_records_days_later_is_not_missed() -> None:
    """The cluster was out of reach for days when the attempt ended there: its end lies far back."""
    History(1280, batch=True).run()


@pytest.mark.heavy
def test_these_histories_reach_everything_too() -> None:
    """They would prove little if the queue were always empty."""
    seen, waited_s, outcomes = Counter[str](), 0.0, set()
    for seed in range(60):
        history = History(seed, batch=True)
        history.run()
        store = history.simulation.store
        seen["crashes"] += history.simulation.crashes
        seen["forgotten"] += len(history.simulation.batches[BATCH].forgotten)
        for run in history.ended.values():
            events = [event.event for event in store.events(run.id)]
            seen["granted"] += events.count(RunEvent.GRANTED)
            seen["left the queue"] += events.count(RunEvent.SUBMITTED) > events.count(RunEvent.GRANTED)
            for attempt in store.attempts(run.id):
                if attempt.delegated:
                    outcomes.add(attempt.outcome)
                    waited_s = max(waited_s, (attempt.granted_at or 0.0) - attempt.created_at)
    assert all(seen[what] > 5 for what in ("crashes", "granted", "left the queue")), seen
    assert seen["forgotten"], "no job was forgotten"
    assert {str(outcome) for outcome in outcomes} >= {"completed", "failed", "stopped", "paused", "lost"}
    assert waited_s > 86_400.0, "nothing waited for a day"


DAY_S = 86_400.0


def _life(crash_at: int | None) -> tuple[Simulation, int]:
    """Wait for two days, run, pause, wait again, fail once, be forgotten once, finish.

    The server dies at the n-th write or effect.
    """
    passed = 0

    def behaviour(launch: Launch) -> Behaviour:
        return Behaviour(duration_s=60.0, checkpoint_period_s=10.0, exit_code=1 if launch.number == 3 else 0)

    simulation = Simulation(
        behaviour=behaviour, cluster=nodes(1, 1), batches={BATCH: nodes(2, 2, cluster=BATCH)}
    )
    batch = simulation.batches[BATCH]

    def point(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == crash_at:
            raise Crash

    def insist(act: Callable[[], object]) -> None:
        while not simulation.survive(act):
            pass

    def wait_in_the_queue() -> None:
        simulation.settle_until(lambda: len(batch.waiting()) == 1)
        simulation.clock.advance(2 * DAY_S)
        for _ in range(3):
            simulation.turn_all()

    batch.interrupt = point
    simulation.store.interrupt = point
    wanted = spec(slots=4, retries=1, target=Target(cluster=BATCH))
    submission = Submission(spec=wanted, actor=ADA, idempotency_key="once")
    batch.closed = True
    run_id = ""

    def submit() -> None:
        nonlocal run_id
        run_id = simulation.server.plane.submit([submission])[0].run.id

    insist(submit)
    wait_in_the_queue()
    assert simulation.store.run(run_id).state is RunState.SUBMITTED
    batch.closed = False
    simulation.settle_until(lambda: simulation.store.run(run_id).state is RunState.RUNNING)
    simulation.clock.advance(15.0)
    batch.closed = True
    insist(lambda: simulation.server.plane.pause(ADA, run_id))
    simulation.settle()
    insist(lambda: simulation.server.plane.resume(ADA, run_id))
    wait_in_the_queue()
    batch.forget(batch.waiting()[0])
    batch.closed = False
    simulation.settle()
    run = simulation.server.plane.find(ADA, run_id)
    assert (run.outcome, run.faults, run.failures) == (Outcome.COMPLETED, 1, 1)
    Promises(simulation).check_end([run_id])
    return simulation, passed


def test_a_crash_at_each_durable_write_and_effect_of_a_life_in_the_queue() -> None:
    _, points = _life(None)
    assert points > 20
    for crash_at in range(1, points + 1):
        simulation, _ = _life(crash_at)
        assert simulation.crashes == 1


def test_what_waits_is_told_in_the_words_of_the_cluster_and_uses_nothing() -> None:
    simulation = Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=60.0),
        cluster=nodes(1, 1),
        batches={BATCH: nodes(2, 2, cluster=BATCH)},
    )
    batch, plane = simulation.batches[BATCH], simulation.server.plane
    batch.closed = True
    accepted = plane.submit([Submission(spec=spec(slots=4, target=Target(cluster=BATCH)), actor=ADA)])
    run_id = accepted[0].run.id
    batch.unreachable = True
    simulation.turn_all()
    assert "on its way to the queue of cluster batch" in plane.why(ADA, run_id).headline
    assert "cannot be reached" in plane.why(ADA, run_id).headline
    batch.unreachable = False
    simulation.clock.advance(60.0)
    simulation.hang(BATCH)
    simulation.turn_all()
    simulation.clock.advance(60.0)
    assert "The cluster does not answer now: no answer for 60 s" in plane.why(ADA, run_id).headline
    simulation.answer(BATCH)
    simulation.turn_all()
    assert plane.why(ADA, run_id).headline == (
        "submitted: it waits as job 1, PENDING, in the queue of cluster batch: Maintenance"
    )
    (other,) = plane.submit([Submission(spec=spec(slots=1, target=Target(cluster=BATCH)), actor=ADA)])
    simulation.turn_all()
    plane.stop(ADA, other.run.id)
    assert plane.why(ADA, other.run.id).headline == (
        "it was asked to stop: its job is taken out of the queue of cluster batch"
    )
    simulation.clock.advance(5 * DAY_S)
    simulation.turn_all()
    (attempt,) = simulation.store.attempts(run_id)
    assert (attempt.state, attempt.allocated_at, attempt.master_port) == (AttemptState.SUBMITTED, None, None)
    batch.closed = False
    simulation.settle()
    run = plane.find(ADA, run_id)
    (attempt,) = simulation.store.attempts(run_id)
    assert run.outcome is Outcome.COMPLETED
    assert set(attempt.allocation.nodes) == {"batch1", "batch2"}
    assert run.attained_slot_s == 4 * 60.0, "only what it held"
    assert run.spec.time_limit_s is None


def turns_of_a_cycle_run(**behaviour: float) -> tuple[Simulation, str, list[tuple[int, dict[str, str]]]]:
    """A cycle run of three turns, where the queue closes once it has begun; what its attempts found."""
    found: list[tuple[int, dict[str, str]]] = []

    def behave(launch: Launch) -> Behaviour:
        found.append((launch.number, dict(launch.nodes[0].workers[0].env)))
        return Behaviour(**{"duration_s": 1e6, "first_output_s": 1.0, **behaviour})

    simulation = Simulation(
        behaviour=behave, cluster=nodes(1, 1), batches={BATCH: nodes(2, 2, cluster=BATCH)}
    )
    batch, plane = simulation.batches[BATCH], simulation.server.plane
    wanted = spec(slots=4, mode=Mode.CYCLE, max_rapid_cycles=3, target=Target(cluster=BATCH))
    run_id = plane.submit([Submission(spec=wanted, actor=ADA)])[0].run.id
    simulation.settle_until(lambda: simulation.store.run(run_id).state is RunState.RUNNING)
    batch.closed = True  # whoever waits in the queue now gets no nodes
    simulation.settle()
    return simulation, run_id, found


def test_i11_a_cycle_run_has_its_turns_one_after_another_in_one_job() -> None:
    """I11, I15: the report and the variables are those of the local cluster."""
    simulation, run_id, found = turns_of_a_cycle_run(checkpoint_period_s=10.0)
    run, attempts = simulation.store.run(run_id), simulation.store.attempts(run_id)
    assert (run.outcome, run.cause, run.turns, run.preemptions) == (Outcome.COMPLETED, None, 3, 0)
    assert run.cycle_report.proven
    assert len({(attempt.native.id, attempt.allocation.nodes) for attempt in attempts}) == 1
    assert [attempt.leave_requested_at - attempt.started_at >= 90.0 for attempt in attempts] == [True] * 3
    told = [(number, env["STRONG_CYCLE_COUNT"], env["STRONG_CYCLE_TIME_MS"]) for number, env in found]
    assert told == [(number, str(number), "90000") for number in (1, 2, 3)]
    assert {env["STRONG_COMPUTE_MODE"] for _, env in found} == {"cycle"}
    Promises(simulation).check_end([run_id])


def test_i11_a_cycle_run_without_a_checkpoint_is_unproven_there_too() -> None:
    simulation, run_id, _ = turns_of_a_cycle_run()
    run = simulation.store.run(run_id)
    assert (run.outcome, run.turns) == (Outcome.COMPLETED, 3)
    assert run.cause.message == "completed, pause and resume unproven: no checkpoint was left"


def test_i12_an_interruptible_run_goes_on_there_and_says_what_differs() -> None:
    """No blocks: nothing is promised, and nobody asks it to leave."""
    simulation = Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=10 * 7200.0),
        cluster=nodes(1, 1),
        batches={BATCH: nodes(1, 2, cluster=BATCH)},
    )
    plane = simulation.server.plane
    wanted = spec(slots=2, mode=Mode.INTERRUPTIBLE, target=Target(cluster=BATCH))
    run_id = plane.submit([Submission(spec=wanted, actor=ADA)])[0].run.id
    simulation.settle_until(lambda: simulation.store.run(run_id).state is RunState.RUNNING)
    assert plane.why(ADA, run_id).headline == (
        "it runs on batch1. Cluster batch gives no blocks of time: its job keeps its nodes until it ends, "
        "its time is over, or it is preempted there for another job; then the run is submitted again, and "
        "resumes from its checkpoint"
    )
    simulation.settle()
    run, (attempt,) = simulation.store.run(run_id), simulation.store.attempts(run_id)
    assert (run.outcome, run.share, attempt.allotted_s) == (Outcome.COMPLETED, None, None)


@pytest.mark.parametrize("leaves", ["stop", "pause"])
def test_i11_a_cycle_run_that_is_ended_between_two_turns_gives_its_nodes_back(leaves: str) -> None:
    """The server learns of the end of its turn after a person wanted no other."""
    simulation = Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=1e6, leave_s=10.0),
        cluster=nodes(1, 1),
        batches={BATCH: nodes(1, 2, cluster=BATCH)},
    )
    plane = simulation.server.plane
    wanted = spec(slots=2, mode=Mode.CYCLE, target=Target(cluster=BATCH))
    first, second = (run.run.id for run in plane.submit([Submission(spec=wanted, actor=ADA)] * 2))
    simulation.settle_until(lambda: simulation.store.run(first).state is RunState.PREEMPTING)
    simulation.clock.advance(15.0)  # it has left by now, and no server has looked
    getattr(plane, leaves)(ADA, first)
    looked_at = simulation.clock.now()
    simulation.settle_until(lambda: simulation.store.run(second).state is RunState.RUNNING)
    (attempt,) = simulation.store.attempts(second)
    assert attempt.granted_at - looked_at < 5.0, "its nodes were kept for a turn that never comes"
