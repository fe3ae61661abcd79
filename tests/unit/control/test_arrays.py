"""Arrays: equal runs of one submission, of which so many run at once; what concerns all, and what one."""

from __future__ import annotations

from collections import Counter

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.admission import Submission
from tarmac.launch.environment import setup_environment
from tarmac.model.array import Dependency, read_array
from tarmac.model.errors import NotFound, Refused
from tarmac.model.lifecycle import RunState
from tarmac.model.progress import Outcome
from tarmac.model.run import Run
from tarmac.model.spec import LocalDirectory, Rehearsal, Target
from tarmac.model.summary import RunQuery
from tarmac.node.attempt.document import Launch

RUNS_S = 100.0
SITE = "site"


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(
        behaviour=lambda _launch: Behaviour(duration_s=RUNS_S),
        cluster=nodes(2, 8),
        batches={SITE: nodes(2, 8, cluster=SITE)},
    )


def submit(simulation: Simulation, array: str, *, key: str | None = None, **wanted: object) -> Run:
    asked = spec(name="sweep", array=read_array(array), **({"slots": 1} | wanted))
    submission = Submission(spec=asked, actor=ADA, idempotency_key=key)
    return simulation.server.plane.submit([submission])[0].run


def members(simulation: Simulation, run: Run) -> list[Run]:
    found = simulation.store.runs(RunQuery(array_id=run.array_id, limit=10_000))
    return list(reversed(list(simulation.store.load_runs([each.id for each in found]).values())))


def in_order(simulation: Simulation, run: Run) -> list[Run]:
    return sorted(members(simulation, run), key=lambda each: each.array_index or 0)


def go_on(simulation: Simulation, seconds: float = 0.0) -> None:
    simulation.clock.advance(seconds)
    for _ in range(4):
        simulation.turn_all()


def active(simulation: Simulation) -> int:
    return len(simulation.store.live_attempts())


@pytest.mark.parametrize(
    "target", [Target(), Target(cluster=SITE)], ids=["placed", "with a queue of its own"]
)
def test_so_many_run_at_once_in_the_order_of_their_index(simulation: Simulation, target: Target) -> None:
    first = submit(simulation, "0-6:2,1%2", target=target)
    started: list[int | None] = []
    for _ in range(4):
        go_on(simulation)
        assert active(simulation) <= 2
        live = [
            run.array_index for run in in_order(simulation, first) if run.attempt and run.ended_at is None
        ]
        started += [index for index in live if index not in started]
        go_on(simulation, RUNS_S + 1)
        assert active(simulation) <= 2
    assert started == [0, 1, 2, 4, 6]
    ended = members(simulation, first)
    assert Counter(run.outcome for run in ended) == {Outcome.COMPLETED: 5}
    assert {(run.spec.name, run.attempt) for run in ended} == {("sweep", 1)}


def test_without_a_limit_all_that_fit_run(simulation: Simulation) -> None:
    submit(simulation, "0-19")
    go_on(simulation)
    assert active(simulation) == 16


def test_all_are_accepted_once_however_often_it_is_sent(simulation: Simulation) -> None:
    first, again = (submit(simulation, "0-4", key="once") for _ in range(2))
    assert first.id == again.id
    assert len(simulation.store.runs(RunQuery())) == 5
    assert {run.array_id for run in members(simulation, first)} == {first.array_id}


def test_a_name_means_all_and_an_index_one(simulation: Simulation) -> None:
    plane = simulation.server.plane
    first = submit(simulation, "0-9%3")
    go_on(simulation)
    assert plane.find(ADA, "sweep[7]").array_index == 7
    assert plane.find(ADA, f"{first.array_id}[7]").id == plane.find(ADA, "sweep[7]").id
    with pytest.raises(NotFound, match=r"sweep\[10\]"):
        plane.find(ADA, "sweep[10]")
    assert plane.stop(ADA, "sweep[9]").outcome is Outcome.STOPPED
    plane.pause(ADA, "sweep")
    go_on(simulation)
    states = Counter(run.state for run in members(simulation, first))
    assert states == {RunState.PAUSED: 9, RunState.ENDED: 1}
    plane.resume(ADA, str(first.array_id))
    go_on(simulation)
    assert active(simulation) == 3
    assert dict(plane.array(ADA, "sweep").counts) == {"queued": 6, "running": 3, "stopped": 1}
    plane.stop(ADA, "sweep")
    go_on(simulation)
    assert dict(plane.array(ADA, "sweep").counts) == {"stopped": 10}


def test_a_paused_member_makes_room_for_the_next(simulation: Simulation) -> None:
    first = submit(simulation, "0-2%1")
    go_on(simulation)
    simulation.server.plane.pause(ADA, "sweep[0]")
    go_on(simulation)
    assert [run.attempt for run in in_order(simulation, first)] == [1, 1, 0]
    simulation.server.plane.resume(ADA, "sweep[0]")
    go_on(simulation)
    assert active(simulation) == 1
    go_on(simulation, RUNS_S + 1)
    assert [run.attempt for run in in_order(simulation, first)] == [2, 1, 0], "the smaller index goes first"


def test_why_and_when_a_held_member_starts(simulation: Simulation) -> None:
    submit(simulation, "0-2%1", time_limit_s=1000.0)
    go_on(simulation)
    told = simulation.server.plane.why(ADA, "sweep[2]")
    assert [reason.code for reason in told.reasons] == ["group_limit"]
    assert told.estimate is not None
    assert told.estimate.start_at == pytest.approx(simulation.clock.now() + 2000.0, abs=40.0)


def test_members_get_the_same_code_and_know_which_they_are(simulation: Simulation) -> None:
    first = submit(simulation, "2-4", code=LocalDirectory(path="/code"))
    assert first.state is RunState.PENDING
    go_on(simulation)
    found = in_order(simulation, first)
    assert {run.code_digest for run in found} == {"digest-of-code"}
    (attempt,) = simulation.store.attempts(found[1].id)
    environment = setup_environment(found[1], attempt, in_container=False)
    assert {name: text for name, text in environment.items() if name.startswith("TARMAC_ARRAY")} == {
        "TARMAC_ARRAY_ID": first.array_id,
        "TARMAC_ARRAY_INDEX": "3",
        "TARMAC_ARRAY_COUNT": "3",
        "TARMAC_ARRAY_MIN": "2",
        "TARMAC_ARRAY_MAX": "4",
    }


def test_a_rehearsal_is_of_one_run(simulation: Simulation) -> None:
    with pytest.raises(Refused, match="a rehearsal makes a cluster for one run"):
        submit(simulation, "0-2", rehearsal=Rehearsal(nodes=1, slots_per_node=1))


def test_ten_thousand_members_are_accepted_at_once_and_stopped_at_once(simulation: Simulation) -> None:
    first = submit(simulation, "0-9999%8")
    go_on(simulation)
    assert active(simulation) == 8
    simulation.server.plane.stop(ADA, "sweep")
    go_on(simulation)
    assert dict(simulation.server.plane.array(ADA, first.id).counts) == {"stopped": 10_000}


def _life(crash_at: int | None) -> tuple[Simulation, int]:
    """An array of five, two at once; the server dies at the n-th durable write or effect."""
    passed = 0
    simulation = Simulation(behaviour=lambda _launch: Behaviour(duration_s=60.0), cluster=nodes(1, 8))

    def point(*_: object) -> None:
        nonlocal passed
        passed += 1
        assert active(simulation) <= 2
        if passed == crash_at:
            raise Crash

    simulation.engine.interrupt = point
    simulation.store.interrupt = point
    while not simulation.survive(lambda: submit(simulation, "0-4%2", key="once")):
        pass
    simulation.settle()
    runs = simulation.store.load_runs([each.id for each in simulation.store.runs(RunQuery())]).values()
    assert [(run.outcome, run.attempt) for run in runs] == [(Outcome.COMPLETED, 1)] * 5
    assert sorted(run.array_index or 0 for run in runs) == [0, 1, 2, 3, 4]
    return simulation, passed


def test_a_crash_at_each_write_keeps_all_members_and_the_limit() -> None:
    _, points = _life(None)
    assert points > 20
    for crash_at in range(1, points + 1):
        assert _life(crash_at)[0].crashes == 1


@pytest.mark.parametrize("broken", [False, True])
def test_a_run_after_an_array_waits_for_all_its_members(broken: bool) -> None:
    def behaviour(launch: Launch) -> Behaviour:
        return Behaviour(duration_s=RUNS_S, exit_code=int(broken and launch.run_id == members_ids[1]))

    simulation = Simulation(behaviour=behaviour, cluster=nodes(2, 8))
    first = submit(simulation, "0-2%1")
    members_ids = [run.id for run in in_order(simulation, first)]
    after = spec(name="report", after=(Dependency(run="sweep"),))
    last = simulation.server.plane.submit([Submission(spec=after, actor=ADA)])[0].run
    assert [each.run_id for each in last.dependencies] == [first.array_id]
    for _ in range(2):
        go_on(simulation)
        go_on(simulation, RUNS_S + 1)
        assert simulation.server.plane.find(ADA, last.id).attempt == 0
    go_on(simulation, RUNS_S + 1)
    ended = simulation.server.plane.find(ADA, last.id)
    assert ended.attempt == (0 if broken else 1)
    if broken:
        assert ended.cause is not None
        assert ended.cause.message.endswith("and that did not: 1 of 3 members failed or were stopped")
