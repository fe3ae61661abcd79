"""The slots of replicas that have ended while others of their run go on: free at once, and counted once."""

from __future__ import annotations

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.control.service import Submission
from tarmac.model.lifecycle import RunEvent, RunState
from tarmac.model.run import Run
from tarmac.model.spec import FailureBehaviour
from tarmac.node.attempt.document import Launch

BEHAVIOURS = {
    "wide": Behaviour(duration_s=100.0, replicas_end_s={("main", 0): 20.0, ("main", 2): 50.0}),
    "even": Behaviour(duration_s=100.0, replicas_end_s={("main", replica): 20.0 for replica in range(3)}),
}


def a_simulation() -> Simulation:
    """A node of three slots."""

    def behaviour(launch: Launch) -> Behaviour:
        return BEHAVIOURS.get(launch.run_name, Behaviour(duration_s=1000.0))

    return Simulation(behaviour=behaviour, cluster=nodes(1, 3))


def submit(simulation: Simulation, **wanted: object) -> str:
    return simulation.server.plane.submit([Submission(spec=spec(**wanted), actor=ADA)])[0].run.id


def the_run(simulation: Simulation, run_id: str) -> Run:
    run = simulation.store.run(run_id)
    assert run is not None
    return run


def pass_time(simulation: Simulation, until_s: float) -> None:
    """Let time pass until so long after the beginning, with every loop looking before and after."""
    simulation.turn_all()
    simulation.clock.advance_to(1_000_000.0 + until_s)
    for _ in range(2):
        simulation.turn_all()


@pytest.mark.parametrize("on_failure", list(FailureBehaviour))
def test_a_waiting_run_starts_on_the_slot_of_a_replica_that_has_ended(on_failure: FailureBehaviour) -> None:
    simulation = a_simulation()
    wide = submit(simulation, name="wide", replicas=3, each=1, on_failure=on_failure)
    narrow = submit(simulation, name="narrow", replicas=1, each=1)
    pass_time(simulation, 10.0)
    assert the_run(simulation, narrow).state is RunState.QUEUED

    pass_time(simulation, 21.0)

    assert the_run(simulation, wide).state is RunState.RUNNING, "its other replicas go on"
    assert the_run(simulation, narrow).state is RunState.RUNNING
    (attempt,) = simulation.store.attempts(wide)
    taken = simulation.store.attempts(narrow)[0].allocation.placements
    ended = next(placement for placement in attempt.allocation.placements if placement.replica == 0)
    assert [(placement.node, placement.slots) for placement in taken] == [(ended.node, ended.slots)]
    assert [(each.role, each.replica, each.at) for each in attempt.released] == [("main", 0, 1_000_020.0)]
    assert not simulation.engine.violations


def test_what_a_replica_used_is_counted_when_it_ends_and_not_again() -> None:
    simulation = a_simulation()
    wide = submit(simulation, name="wide", replicas=3, each=1, on_failure=FailureBehaviour.CONTINUE)
    pass_time(simulation, 0.0)
    pass_time(simulation, 21.0)
    assert the_run(simulation, wide).attained_slot_s == pytest.approx(20.0)
    simulation.start()  # a server that comes back knows it all the same
    pass_time(simulation, 60.0)
    assert the_run(simulation, wide).attained_slot_s == pytest.approx(70.0)
    pass_time(simulation, 101.0)
    ended = the_run(simulation, wide)
    assert ended.state is RunState.ENDED
    assert ended.attained_slot_s == pytest.approx(170.0)
    assert sum(bucket.slot_s for bucket in simulation.store.usage(0.0)) == pytest.approx(170.0)


def test_nodes_and_the_history_show_the_slots_that_are_free_again() -> None:
    simulation = a_simulation()
    wide = submit(simulation, name="wide", replicas=3, each=1, on_failure=FailureBehaviour.CONTINUE)
    pass_time(simulation, 0.0)
    pass_time(simulation, 21.0)
    (report,) = simulation.server.plane.nodes(ADA)
    assert (report.slots_used, [run.slots for run in report.runs]) == (2, [2])
    (told,) = [event for event in simulation.store.events(wide) if event.event is RunEvent.RELEASED]
    assert told.detail == {"attempt": 1, "replicas": ["main.0"], "slots": 1}


def test_an_attempt_of_which_all_replicas_have_ended_keeps_its_slots_until_it_has_ended() -> None:
    """What follows the workers (artifacts that are kept, commands) is on its nodes."""
    simulation = a_simulation()
    even = submit(simulation, name="even", replicas=3, each=1)
    pass_time(simulation, 0.0)
    pass_time(simulation, 21.0)
    (report,) = simulation.server.plane.nodes(ADA)
    assert report.slots_used == 3
    pass_time(simulation, 101.0)
    assert the_run(simulation, even).attained_slot_s == pytest.approx(300.0)
