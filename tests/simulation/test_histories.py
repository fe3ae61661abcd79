"""Hundreds of seeded histories of the whole control plane, with a crash possible at every durable write.

Thousands by hand: tools/histories.py.
"""

from __future__ import annotations

from collections import Counter

import pytest

from actors import ADA
from examples import seeds
from promises import Promises
from seeded import History
from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.queue.queueing import QueueChange
from tarmac.control.service import Submission
from tarmac.model.cluster import LOCAL_CLUSTER, Pool
from tarmac.model.lifecycle import Mode
from tarmac.model.progress import CauseCode, Outcome
from tarmac.node.attempt.document import Launch

SEEDS_PER_CASE = 25
CASES = 20


@pytest.mark.seeded
@pytest.mark.parametrize("case", range(CASES))
def test_safety_and_liveness_in_seeded_histories(case: int) -> None:
    for seed in seeds(SEEDS_PER_CASE, case=case):
        try:
            History(seed).run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error


@pytest.mark.heavy
def test_the_histories_do_crash_and_do_reach_everything() -> None:
    """The histories would prove little if they were tame."""
    crashes, outcomes, attempts, seen = 0, set(), 0, Counter[str]()
    for seed in range(80):
        history = History(seed)
        history.run()
        crashes += history.simulation.crashes
        for run in history.ended.values():
            attempts = max(attempts, run.attempt)
            outcomes |= {attempt.outcome for attempt in history.simulation.store.attempts(run.id)}
            seen += Counter(
                turns=run.turns,
                preemptions=run.preemptions,
                shares=run.share is not None,
                proven=run.cycle_report is not None and run.cycle_report.proven,
                moved=run.queue_position is not None,
                waited=any(each.met for each in run.dependencies),
                given_up=run.cause is not None and run.cause.code is CauseCode.DEPENDENCY_FAILED,
                released=sum(len(each.released) for each in history.simulation.store.attempts(run.id)),
            )
    assert crashes > 80
    assert attempts > 2
    assert outcomes >= set(Outcome)
    wanted = ("turns", "preemptions", "shares", "proven", "moved", "released", "waited", "given_up")
    assert all(seen[what] > 5 for what in wanted), seen


def _life(crash_at: int | None) -> tuple[Simulation, int]:
    """Submit, pause, resume, fail once, retry and finish; the server dies at the n-th write or effect."""
    passed = 0

    def behaviour(launch: Launch) -> Behaviour:
        return Behaviour(duration_s=60.0, checkpoint_period_s=10.0, exit_code=1 if launch.number == 2 else 0)

    simulation = Simulation(behaviour=behaviour, cluster=nodes(2, 1))

    def point(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == crash_at:
            raise Crash

    simulation.engine.interrupt = point
    simulation.store.interrupt = point
    submission = Submission(spec=spec(slots=2, retries=1), actor=ADA, idempotency_key="once")
    run_id = ""

    def submit() -> None:
        nonlocal run_id
        run_id = simulation.server.plane.submit([submission])[0].run.id

    while not simulation.survive(submit):
        pass
    simulation.turn_all()
    simulation.turn_all()
    simulation.clock.advance(15.0)
    while not simulation.survive(lambda: simulation.server.plane.pause(ADA, run_id)):
        pass
    simulation.settle()
    while not simulation.survive(lambda: simulation.server.plane.resume(ADA, run_id)):
        pass
    simulation.settle()
    run = simulation.server.plane.find(ADA, run_id)
    assert (run.outcome, run.failures) == (Outcome.COMPLETED, 1)
    assert all(count == 1 for count in simulation.engine.starts.values())
    assert not simulation.engine.violations
    return simulation, passed


def test_a_crash_at_each_durable_write_and_effect_in_turn() -> None:
    _, points = _life(None)
    assert points > 10
    for crash_at in range(1, points + 1):
        simulation, _ = _life(crash_at)
        assert simulation.crashes == 1


def _turns(crash_at: int | None) -> tuple[Simulation, int]:
    """Two runs share periods, a cycle run has its turns, one is moved; the server dies at the n-th write."""
    passed = 0
    simulation = Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=150.0, checkpoint_period_s=10.0),
        cluster=nodes(1, 2),
        pools=[Pool(cluster=LOCAL_CLUSTER, turn_s=20.0, period_s=100.0, floor_s=10.0)],
    )

    def point(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == crash_at:
            raise Crash

    def submit(key: str, **wanted: object) -> str:
        submission = Submission(spec=spec(slots=2, **wanted), actor=ADA, idempotency_key=key)
        answers: list[str] = []
        while not simulation.survive(
            lambda: answers.append(simulation.server.plane.submit([submission])[0].run.id)
        ):
            pass
        return answers[-1]

    simulation.engine.interrupt = point
    simulation.store.interrupt = point
    shared = [submit(key, mode=Mode.INTERRUPTIBLE) for key in ("a", "b")]
    simulation.clock.advance(100.0)
    simulation.turn_all()
    turns = submit("c", mode=Mode.CYCLE, max_rapid_cycles=2)
    later = [submit(key, priority=number) for number, key in enumerate("de")]
    change = QueueChange(reference=later[0], ahead_of=later[1])
    while not simulation.survive(lambda: simulation.server.plane.reorder(ADA, [change])):
        pass
    simulation.settle()
    found = {run_id: simulation.store.run(run_id) for run_id in (*shared, turns, *later)}
    assert {run.outcome for run in found.values()} == {Outcome.COMPLETED}
    assert (found[turns].turns, found[turns].cycle_report.proven) == (2, True)
    assert [run_id for run_id in later if found[run_id].place.priority == 1] == later
    assert found[later[0]].started_at < found[later[1]].started_at
    assert all(count == 1 for count in simulation.engine.starts.values())
    promises = Promises(simulation)
    promises.check(found)
    promises.check_end(found)
    return simulation, passed


@pytest.mark.heavy
def test_a_crash_at_each_write_loses_no_turn_no_share_and_no_place() -> None:
    """I11, I12, D14: what was promised is kept, wherever the server dies."""
    _, points = _turns(None)
    assert points > 40
    for crash_at in range(1, points + 1):
        simulation, _ = _turns(crash_at)
        assert simulation.crashes == 1
