"""Thousands of seeded histories of the whole control plane, with a crash possible at every durable write."""

from __future__ import annotations

import pytest

from seeded import History
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.service import Submission
from tarmac.engines.sim import Behaviour
from tarmac.model.ports import Launch
from tarmac.model.run import Outcome

SEEDS_PER_CASE = 100
CASES = 20


@pytest.mark.parametrize("case", range(CASES))
def test_safety_and_liveness_in_seeded_histories(case: int) -> None:
    for seed in range(case * SEEDS_PER_CASE, (case + 1) * SEEDS_PER_CASE):
        try:
            History(seed).run()
        except AssertionError as error:
            raise AssertionError(f"history {seed}: {error}") from error


def test_the_histories_do_crash_and_do_reach_every_outcome() -> None:
    """The histories would prove little if they were tame."""
    crashes, outcomes, attempts = 0, set(), 0
    for seed in range(40):
        history = History(seed)
        history.run()
        crashes += history.simulation.crashes
        for run in history.ended.values():
            attempts = max(attempts, run.attempt)
            outcomes |= {attempt.outcome for attempt in history.simulation.store.attempts(run.id)}
    assert crashes > 40
    assert attempts > 2
    assert outcomes >= {Outcome.COMPLETED, Outcome.FAILED, Outcome.STOPPED, Outcome.PAUSED, Outcome.LOST}


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
    submission = Submission(spec=spec(slots=2, retries=1), user="ada", idempotency_key="once")
    run_id = ""

    def submit() -> None:
        nonlocal run_id
        run_id = simulation.server.plane.submit([submission])[0].run.id

    while not simulation.survive(submit):
        pass
    simulation.turn_all()
    simulation.turn_all()
    simulation.clock.advance(15.0)
    while not simulation.survive(lambda: simulation.server.plane.pause(run_id)):
        pass
    simulation.settle()
    while not simulation.survive(lambda: simulation.server.plane.resume(run_id)):
        pass
    simulation.settle()
    run = simulation.server.plane.find(run_id)
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
