"""What an actor may do, whose runs a name means first, and who is recorded as having done it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from actors import ADA, member
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.api.operation import RunScope
from tarmac.control.draining import NodeChoice
from tarmac.control.queue.queueing import QueueChange
from tarmac.control.service import ControlPlane, Submission
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.errors import Forbidden, Refused
from tarmac.model.run import Run
from tarmac.model.summary import RunQuery

BOB, EVE = member("bob"), member("eve")
VIEWER = Actor(user="bob", roles=frozenset({ActorRole.VIEWER}))


@pytest.fixture
def plane() -> ControlPlane:
    return Simulation(behaviour=lambda _launch: Behaviour(duration_s=60.0), cluster=nodes(1, 4)).server.plane


def submit(plane: ControlPlane, actor: Actor, **wanted: object) -> Run:
    return plane.submit([Submission(spec=spec(**wanted), actor=actor)])[0].run


COMMANDS: list[Callable[[ControlPlane, Actor, str], object]] = [
    lambda plane, actor, run: plane.stop(actor, run),
    lambda plane, actor, run: plane.pause(actor, run),
    lambda plane, actor, run: plane.resume(actor, run),
    lambda plane, actor, run: plane.reorder(actor, [QueueChange(reference=run, priority=3)]),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_run_is_changed_by_its_owner_and_by_admins_alone(
    plane: ControlPlane, command: Callable[[ControlPlane, Actor, str], object]
) -> None:
    run = submit(plane, BOB, slots=1)
    with pytest.raises(Forbidden, match="eve may not change runs of bob"):
        command(plane, EVE, run.id)
    assert plane.find(EVE, run.id) == run, "nothing was changed, and it may be read"
    for allowed in (BOB, ADA):
        command(plane, allowed, submit(plane, BOB, slots=1, start_paused=command is COMMANDS[2]).id)


def test_nodes_are_drained_by_admins_alone(plane: ControlPlane) -> None:
    every = NodeChoice(names=tuple(report.node.name for report in plane.nodes(ADA)))
    with pytest.raises(Forbidden, match="bob may not manage this server"):
        plane.set_drained(BOB, every, True)
    assert len(plane.set_drained(ADA, every, True)) == 1


def test_a_viewer_reads_and_does_nothing_else(plane: ControlPlane) -> None:
    run = submit(plane, BOB, slots=1)
    assert plane.find(VIEWER, run.name) == run
    assert [found.id for found in plane.runs(VIEWER, RunQuery())] == [run.id]
    with pytest.raises(Forbidden, match="takes the role member"):
        submit(plane, VIEWER, slots=1)
    with pytest.raises(Forbidden):
        plane.stop(VIEWER, run.id)


def test_who_has_no_role_reads_nothing(plane: ControlPlane) -> None:
    nobody = Actor(user="mallory", roles=frozenset())
    run = submit(plane, BOB, slots=1)
    questions: list[Callable[[], object]] = [
        lambda: plane.find(nobody, run.id),
        lambda: plane.runs(nobody, RunQuery()),
        lambda: plane.attempts(nobody, run.id),
        lambda: plane.events(nobody, run.id),
        lambda: plane.workers(nobody, f"{run.id}.1"),
        lambda: plane.notices(nobody, f"{run.id}.1"),
        lambda: plane.read(nobody, f"{run.id}.1", "logs/x"),
        lambda: plane.queue(nobody),
        lambda: plane.pools(nobody),
        lambda: plane.nodes(nobody),
        lambda: plane.why(nobody, run.id),
    ]
    for question in questions:
        with pytest.raises(Forbidden, match="mallory may not read"):
            question()


def test_a_name_means_the_actors_own_run_first(plane: ControlPlane) -> None:
    own = submit(plane, BOB, name="digits", slots=1)
    newer = submit(plane, EVE, name="digits", slots=1)
    assert plane.find(BOB, "digits").id == own.id
    assert plane.find(EVE, "digits").id == newer.id
    assert plane.find(ADA, "digits").id == newer.id, "who has none means the newest of anybody"
    assert plane.find(BOB, "@last").id == own.id
    assert plane.find(BOB, newer.id).id == newer.id, "an id is an id"
    with pytest.raises(Refused):
        plane.find(BOB, own.id[:2])


def test_lists_take_a_scope(plane: ControlPlane) -> None:
    own, other = submit(plane, BOB, slots=1), submit(plane, EVE, slots=1)
    assert [run.id for run in plane.runs(BOB, RunQuery(), scope=RunScope.MINE)] == [own.id]
    assert [run.id for run in plane.runs(BOB, RunQuery(), scope=RunScope.ALL)] == [other.id, own.id]


def test_events_say_whose_command_they_were(plane: ControlPlane) -> None:
    run = submit(plane, BOB, slots=1)
    plane.pause(ADA, run.id)
    plane.resume(BOB, run.id)
    plane.reorder(BOB, [QueueChange(reference=run.id, priority=3)])
    told = [(event.event.value, event.actor) for event in plane.events(BOB, run.id)]
    assert told == [
        ("accepted", "bob"),
        ("staged", None),
        ("pause_requested", "ada"),
        ("resume_requested", "bob"),
        ("reordered", "bob"),
    ]
