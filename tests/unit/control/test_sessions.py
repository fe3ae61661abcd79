"""Who may open a session, beside which worker, and what the history keeps of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

import pytest

from actors import ADA, member
from sim_engine import Behaviour, SimEngine
from simulated import Simulation, nodes, spec
from tarmac.control.service import Submission
from tarmac.control.sessions import WorkerChoice
from tarmac.model.actor import Actor
from tarmac.model.errors import Forbidden, Refused
from tarmac.model.lifecycle import IllegalStep, RunEvent, RunState
from tarmac.model.progress import WorkerStatus
from tarmac.model.run import Run

ANY = WorkerChoice()
BOB, EVE = member("bob"), member("eve")


class OpeningEngine(SimEngine):
    """A simulated engine with workers as a test says, that opens sessions beside them."""

    reported: Sequence[WorkerStatus] = ()

    def workers(self, attempt_id: str) -> Sequence[WorkerStatus]:
        return self.reported

    def open_session(self, attempt_id: str, worker: WorkerStatus) -> int:
        return os.open(os.devnull, os.O_RDONLY)


def status(replica: int, *, pid: int | None = 7, ended_at: float | None = None) -> WorkerStatus:
    return WorkerStatus(
        role="main", replica=replica, index=0, node=f"n{replica}", log="", pid=pid, ended_at=ended_at
    )


def simulation(engine_type: type[SimEngine] = OpeningEngine) -> Simulation:
    return Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=600.0), cluster=nodes(1, 4), engine_type=engine_type
    )


def running(world: Simulation, workers: Sequence[WorkerStatus] = (status(0),)) -> Run:
    """A run of bob's, whose engine reports these workers."""
    run = world.server.plane.submit([Submission(spec=spec(slots=1), actor=BOB)])[0].run
    world.settle_until(lambda: world.server.plane.find(BOB, run.id).state is RunState.RUNNING)
    if isinstance(world.engine, OpeningEngine):
        world.engine.reported = workers
    return world.server.plane.find(BOB, run.id)


def chosen(world: Simulation, run: Run, choice: WorkerChoice = ANY, actor: Actor = BOB) -> str:
    """The node beside whose worker a session is."""
    session = world.server.plane.open_session(actor, run.id, choice)
    os.close(session.channel)
    return session.worker.node


def test_the_first_worker_that_runs_is_taken_where_none_is_named() -> None:
    world = simulation()
    run = running(world, [status(0, ended_at=5.0), status(1, pid=None), status(2), status(3)])
    assert chosen(world, run) == "n2"
    assert chosen(world, run, WorkerChoice(replica=3)) == "n3"
    assert chosen(world, run, WorkerChoice(role="main", worker=0, node="n3")) == "n3"


def test_a_worker_that_does_not_run_is_refused_with_those_that_do() -> None:
    world = simulation()
    run = running(world, [status(0, ended_at=5.0), status(1, pid=None), status(2)])
    for choice, message in (
        (WorkerChoice(replica=0), "worker main.0.0 on n0 has ended"),
        (WorkerChoice(replica=1), "worker main.1.0 on n1 has not started"),
        (WorkerChoice(role="other"), "the run has no such worker"),
    ):
        with pytest.raises(Refused, match=message) as refusal:
            chosen(world, run, choice)
        assert refusal.value.hint == "these run: main.2.0 on n2"


def test_a_session_is_for_the_owner_of_the_run_and_for_admins() -> None:
    world = simulation()
    run = running(world)
    assert chosen(world, run, actor=ADA) == "n0"
    with pytest.raises(Forbidden, match="eve may not change runs of bob"):
        chosen(world, run, actor=EVE)


def test_a_run_without_workers_says_why() -> None:
    world = simulation()
    plane = world.server.plane
    run = plane.submit([Submission(spec=spec(slots=1), actor=BOB)])[0].run
    with pytest.raises(Refused, match="has no nodes yet: it is") as refusal:
        chosen(world, run)
    assert refusal.value.hint == f"tarmac why {run.id} says what it waits for"
    over = running(world)
    plane.stop(BOB, over.id)
    world.settle_until(lambda: plane.find(BOB, over.id).state is RunState.ENDED)
    with pytest.raises(Refused, match=r"has ended \(stopped\)"):
        chosen(world, over)


def test_an_engine_that_opens_none_says_so() -> None:
    world = simulation(SimEngine)
    with pytest.raises(Refused, match="not possible on this cluster yet"):
        chosen(world, running(world))


def test_the_history_says_who_opened_a_session_and_for_what() -> None:
    world = simulation()
    run = running(world)
    world.server.plane.record_session(ADA, run.id, {"command": ["ls"]})
    event = world.server.plane.events(BOB, run.id)[-1]
    assert (event.event, event.actor, event.detail) == (
        RunEvent.SESSION_OPENED,
        ADA.user,
        {"command": ["ls"]},
    )
    assert world.server.plane.find(BOB, run.id).state is run.state
    world.server.plane.stop(BOB, run.id)
    world.settle_until(lambda: world.server.plane.find(BOB, run.id).state is RunState.ENDED)
    with pytest.raises(IllegalStep, match="cannot be given a session"):
        world.server.plane.record_session(ADA, run.id, {})
