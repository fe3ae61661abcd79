"""Runs that wait for other runs: when they start, how they end, and what is told of them meanwhile."""

from __future__ import annotations

import itertools

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Crash, Simulation, nodes, spec
from tarmac.control.admission import Submission
from tarmac.control.service import ControlPlane
from tarmac.model.array import Condition, Dependency
from tarmac.model.errors import InvalidInput
from tarmac.model.lifecycle import RunEvent, RunState
from tarmac.model.progress import CauseCode, Outcome
from tarmac.model.run import Run
from tarmac.model.spec import Target
from tarmac.node.attempt.document import Launch

RUNS_S = 600.0
SITE = "site"


def behaviour(launch: Launch) -> Behaviour:
    return Behaviour(duration_s=RUNS_S, exit_code=1 if launch.run_name == "broken" else 0)


@pytest.fixture
def simulation() -> Simulation:
    return Simulation(behaviour=behaviour, cluster=nodes(2, 4), batches={SITE: nodes(1, 4, cluster=SITE)})


def submit(simulation: Simulation, name: str, *after: str, **wanted: object) -> Run:
    dependencies = tuple(
        Dependency(run=reference, condition=Condition(condition or "completed"))
        for reference, _, condition in (text.partition(":") for text in after)
    )
    asked = spec(name=name, after=dependencies, **({"slots": 1} | wanted))
    return simulation.server.plane.submit([Submission(spec=asked, actor=ADA)])[0].run


def go_on(simulation: Simulation, seconds: float = 0.0) -> None:
    """Time passes, and everything that is due is done."""
    simulation.clock.advance(seconds)
    for _ in range(4):
        simulation.turn_all()


def now(simulation: Simulation, run: Run) -> Run:
    return simulation.server.plane.find(ADA, run.id)


@pytest.mark.parametrize(
    "target", [Target(), Target(cluster=SITE)], ids=["placed", "with a queue of its own"]
)
def test_a_run_waits_for_another_and_then_starts(simulation: Simulation, target: Target) -> None:
    first = submit(simulation, "prep")
    second = submit(simulation, "train", "prep", target=target)
    go_on(simulation)
    assert now(simulation, first).state is RunState.RUNNING
    assert now(simulation, second).state is RunState.QUEUED
    told = simulation.server.plane.why(ADA, second.id)
    assert told.headline == f"queued: it starts after prep ({first.id}) has completed, which is running"
    assert told.awaits == 1
    go_on(simulation, RUNS_S + 1)
    assert now(simulation, first).outcome is Outcome.COMPLETED
    assert now(simulation, second).attempt == 1
    (met,) = [e for e in simulation.store.events(second.id) if e.event is RunEvent.DEPENDENCY_MET]
    assert met.detail == {"run": first.id, "name": "prep", "outcome": "completed"}


def test_a_run_whose_dependency_failed_ends_and_so_do_those_after_it(simulation: Simulation) -> None:
    broken = submit(simulation, "broken")
    second = submit(simulation, "train", broken.id)
    third = submit(simulation, "report", second.id)
    anyway = submit(simulation, "clean", f"{broken.id}:ended")
    go_on(simulation)
    assert now(simulation, anyway).attempt == 0
    go_on(simulation, RUNS_S + 1)
    ends = [now(simulation, run) for run in (second, third)]
    assert [(run.outcome, run.attempt) for run in ends] == [(Outcome.FAILED, 0)] * 2
    assert [run.cause.code for run in ends if run.cause] == [CauseCode.DEPENDENCY_FAILED] * 2
    assert ends[0].cause is not None
    assert ends[0].cause.message.startswith(
        f"it was to start after broken ({broken.id}) has completed, and that failed: "
    )
    assert now(simulation, anyway).attempt == 1


def test_a_stopped_run_has_not_completed(simulation: Simulation) -> None:
    first = submit(simulation, "prep")
    second = submit(simulation, "train", "prep")
    simulation.server.plane.stop(ADA, first.id)
    go_on(simulation)
    cause = now(simulation, second).cause
    assert cause is not None
    assert cause.message == f"it was to start after prep ({first.id}) has completed, and that was stopped"


def test_all_of_several_are_awaited_and_one_named_twice_has_to_complete(simulation: Simulation) -> None:
    first, other = submit(simulation, "prep"), submit(simulation, "data")
    run = submit(simulation, "train", "prep:ended", first.id, other.id)
    assert [(each.run_id, each.condition) for each in run.dependencies] == [
        (first.id, "completed"),
        (other.id, "completed"),
    ]
    simulation.server.plane.pause(ADA, other.id)
    go_on(simulation)
    go_on(simulation, RUNS_S + 1)
    waiting = now(simulation, run)
    assert [each.met for each in waiting.dependencies] == [True, False]
    assert (waiting.state, waiting.attempt) == (RunState.QUEUED, 0)
    (entry,) = [
        entry for page in simulation.server.plane.queue(ADA) for entry in page.runs if entry.id == run.id
    ]
    assert [each.name for each in entry.awaits] == ["data"]


def test_what_a_name_meant_at_submission_counts(simulation: Simulation) -> None:
    first = submit(simulation, "prep")
    run = submit(simulation, "train", "prep")
    submit(simulation, "prep")
    assert [each.run_id for each in run.dependencies] == [first.id]


def test_unknown_runs_are_refused_all_at_once_and_itself_is_none(simulation: Simulation) -> None:
    """So there can be no circle: a run waits for earlier ones only."""
    submit(simulation, "prep")
    with pytest.raises(InvalidInput) as refused:
        submit(simulation, "loop", "pref", "loop", "prep")
    assert [problem.message for problem in refused.value.problems] == [
        "after: there is no run 'pref'",
        "after: there is no run 'loop'",
    ]
    assert "prep" in (refused.value.problems[0].hint or "")


def test_a_run_that_was_removed_before_anybody_looked(simulation: Simulation) -> None:
    gone = submit(simulation, "prep")
    strict, lax = submit(simulation, "train", "prep"), submit(simulation, "clean", "prep:ended")
    simulation.server.plane.stop(ADA, gone.id)
    simulation.store.remove_runs([gone.id])
    go_on(simulation)
    cause = now(simulation, strict).cause
    assert cause is not None
    assert "was removed before it was seen how it ended" in cause.message
    assert now(simulation, lax).attempt == 1


def test_it_may_be_paused_resumed_and_stopped_while_it_waits(simulation: Simulation) -> None:
    plane: ControlPlane = simulation.server.plane
    submit(simulation, "prep")
    run = submit(simulation, "train", "prep")
    plane.pause(ADA, run.id)
    go_on(simulation)
    go_on(simulation, RUNS_S + 1)
    assert now(simulation, run).state is RunState.PAUSED
    plane.resume(ADA, run.id)
    go_on(simulation)
    assert now(simulation, run).attempt == 1
    submit(simulation, "next")
    other = submit(simulation, "after-next", "next")
    assert plane.stop(ADA, other.id).outcome is Outcome.STOPPED


def test_when_it_is_likely_to_start_follows_from_what_it_waits_for(simulation: Simulation) -> None:
    submit(simulation, "prep", time_limit_s=1000.0)
    middle = submit(simulation, "middle", "prep", time_limit_s=500.0)
    last = submit(simulation, "train", middle.id)
    go_on(simulation)
    at = simulation.clock.now()
    estimates = [simulation.server.plane.why(ADA, run.id).estimate for run in (middle, last)]
    starts = [estimate.start_at - at for estimate in estimates if estimate and estimate.start_at is not None]
    assert starts == pytest.approx([1000.0, 1500.0], abs=20.0)


def _life(crash_at: int | None) -> tuple[Simulation, int]:
    """Three runs one after the other; the server dies at the n-th durable write or effect."""
    passed = 0
    simulation = Simulation(behaviour=lambda _launch: Behaviour(duration_s=60.0), cluster=nodes(2, 4))

    def point(*_: object) -> None:
        nonlocal passed
        passed += 1
        if passed == crash_at:
            raise Crash

    simulation.engine.interrupt = point
    simulation.store.interrupt = point
    for name, after in (("a", ()), ("b", ("a",)), ("c", ("a:ended", "b"))):
        asked = spec(
            name=name,
            slots=1,
            after=tuple(
                Dependency(run=text.split(":")[0], condition=Condition((text + ":completed").split(":")[1]))
                for text in after
            ),
        )
        submission = Submission(spec=asked, actor=ADA, idempotency_key=name)
        while not simulation.survive(lambda it=submission: simulation.server.plane.submit([it])):
            pass
    simulation.settle()
    runs = [simulation.server.plane.find(ADA, name) for name in "abc"]
    assert [(run.outcome, run.attempt) for run in runs] == [(Outcome.COMPLETED, 1)] * 3
    attempts = [simulation.store.attempts(run.id)[0] for run in runs]
    for before, after in itertools.pairwise(attempts):
        assert before.ended_at is not None
        assert after.created_at >= before.ended_at
    return simulation, passed


def test_a_crash_at_each_write_loses_no_dependency() -> None:
    _, points = _life(None)
    assert points > 20
    for crash_at in range(1, points + 1):
        assert _life(crash_at)[0].crashes == 1
