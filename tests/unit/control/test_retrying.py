"""When a failed run is tried again, and when not: growing pauses, and ends that repeat alike."""

from __future__ import annotations

import pytest

from actors import ADA
from sim_engine import Behaviour
from simulated import Simulation, nodes, spec
from tarmac.control.decisions import counting
from tarmac.control.decisions.apply_observation import apply_observation
from tarmac.control.decisions.counting import pause_s
from tarmac.control.service import Submission
from tarmac.control.state.facts import candidate_of
from tarmac.model.changes import RunStep
from tarmac.model.codec import replace
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Cause, CauseCode, LogAction, LogMatch, Outcome
from tarmac.model.run import Allocation, Attempt, Run


def a_run(**fields: object) -> Run:
    wanted = spec(retries=fields.pop("retries", 10))
    running = Run(id="r1", spec=wanted, user="ada", state=RunState.RUNNING, seq=4, created_at=1.0, attempt=1)
    return replace(running, **fields)


def an_attempt(number: int) -> Attempt:
    return Attempt(
        run_id="r1",
        number=number,
        state=AttemptState.RUNNING,
        engine="sim",
        allocation=Allocation(cluster="local", placements=()),
        token="t",
        master_port=20000,
        created_at=100.0,
        started_at=100.0,
    )


def end(run: Run, *, ran_s: float = 1.0, outcome: Outcome = Outcome.FAILED, **cause: object) -> RunStep:
    """The step at the end of the run's next attempt."""
    told = Cause(code=cause.pop("code", CauseCode.EXIT_CODE), message="because", **cause)
    seen = Observation(
        state=ObservedState.ENDED, outcome=outcome, cause=told, started_at=100.0, ended_at=100.0 + ran_s
    )
    step = apply_observation(run, an_attempt(run.attempt), seen, 100.0 + ran_s)
    assert step is not None
    return step


def again(run: Run) -> Run:
    """The run once its next attempt runs."""
    return replace(run, state=RunState.RUNNING, attempt=run.attempt + 1)


def test_pauses_grow_from_seconds_to_minutes_and_differ_between_runs() -> None:
    pauses = [pause_s(tries, "r1.1") for tries in range(1, 12)]
    assert 1.5 <= pauses[0] <= 2.5
    assert pauses[:8] == sorted(pauses[:8])
    assert all(225.0 <= pause <= 375.0 for pause in pauses[9:])
    assert len({pause_s(1, f"r{number}.1") for number in range(50)}) > 40
    assert pause_s(1000, "r1.1") == pauses[-1], "no overflow"


def test_each_failure_in_a_row_waits_longer_and_one_that_ran_for_long_begins_anew() -> None:
    run, waited = a_run(), []
    for number in range(4):
        after = end(run, exit_code=number + 1).after
        assert after.state is RunState.QUEUED
        assert after.retry is not None
        assert after.queued_at is not None
        waited.append(after.retry.at - after.queued_at)
        run = again(after)
    assert waited == sorted(waited)
    assert waited[3] > 4 * waited[0]
    assert end(run, ran_s=counting.LONG_S).after.retry.tries == 1


def test_a_fault_of_the_platform_waits_too_and_is_given_up_in_the_end() -> None:
    run = a_run(retries=0)
    for number in range(counting.MAX_FAULTS):
        after = end(run, outcome=Outcome.LOST, code=CauseCode.NODE_LOST).after
        assert (after.state, after.retry.tries) == (RunState.QUEUED, number + 1)
        run = again(after)
    assert end(run, outcome=Outcome.LOST, code=CauseCode.NODE_LOST).after.outcome is Outcome.FAILED


def test_an_end_that_repeats_alike_stops_the_retries_and_says_so() -> None:
    """Numbers and addresses in the last lines may differ: a time, a process, an object."""
    first = end(
        a_run(), exit_code=3, tail=("12:30:01 rank 7: <X at 0x7f21>", "ValueError: no such file")
    ).after
    last = end(
        again(first), exit_code=3, tail=("12:30:09 rank 6: <X at 0x55aa>", "ValueError: no such file")
    ).after
    assert (last.state, last.outcome) == (RunState.ENDED, Outcome.FAILED)
    assert last.cause is not None
    ending = "within 10 s of starting: not tried again (9 retries are left)"
    assert last.cause.message == f"because; it ended alike twice in a row, {ending}"


@pytest.mark.parametrize(
    "other",
    [
        {"exit_code": 4, "tail": ("boom",)},
        {"exit_code": 3, "tail": ("bang",)},
        {"exit_code": 3, "tail": ("boom",), "ran_s": counting.QUICK_S},
        {"signal": "SIGSEGV", "tail": ("boom",)},
    ],
    ids=["another code", "other lines", "later", "a signal"],
)
def test_an_end_that_is_not_alike_is_tried_again(other: dict[str, object]) -> None:
    first = end(a_run(), exit_code=3, tail=("boom",)).after
    assert end(again(first), **other).after.state is RunState.QUEUED


def test_the_last_failure_of_all_retries_is_told_as_it_is() -> None:
    first = end(a_run(retries=1), exit_code=3).after
    assert end(again(first), exit_code=3).after.cause.message == "because"


def test_a_run_pauses_before_its_next_try_and_why_and_queue_say_until_when() -> None:
    """Durably: another server, started in the middle of the pause, waits for the rest of it."""
    simulation = Simulation(
        behaviour=lambda launch: Behaviour(duration_s=20.0, exit_code=1 if launch.number == 1 else 0),
        cluster=nodes(1, 4),
    )
    plane = simulation.server.plane
    run = plane.submit([Submission(spec=spec(retries=2, slots=1), actor=ADA)])[0].run
    simulation.turn_all()
    simulation.clock.advance(20.0)
    simulation.turn_all()

    failed = plane.find(ADA, run.id)
    assert (failed.state, failed.attempt) == (RunState.QUEUED, 1)
    assert failed.retry is not None
    told = plane.why(ADA, run.id)
    assert told.headline.startswith("queued: it pauses before retry 1 of 2, because attempt 1 failed: ")
    assert [reason.code for reason in told.reasons] == ["rests"]
    assert told.reasons[0].text == "it may start again in 2 s"
    (line,) = [entry for page in plane.queue(ADA) for entry in page.runs]
    assert line.retry_at == failed.retry.at
    assert line.estimate is not None
    assert line.estimate.start_at == pytest.approx(failed.retry.at)

    simulation.start()
    simulation.turn_all()
    assert simulation.server.plane.find(ADA, run.id).attempt == 1
    simulation.clock.advance_to(failed.retry.at)
    simulation.turn_all()
    assert simulation.server.plane.find(ADA, run.id).attempt == 2


def matched(action: LogAction | None, node: str = "n1") -> dict[str, object]:
    return {"log_matches": (LogMatch(policy="bad disk", node=node, line="EIO ", action=action),)}


def test_a_log_policy_cancels_the_retries() -> None:
    step = end(a_run(), ran_s=60.0, **matched(LogAction.LAST_TRY))
    assert step.after.state is RunState.ENDED
    assert step.after.cause is not None
    assert step.after.cause.message == (
        "because; log policy 'bad disk' found on n1: EIO (no retry); "
        "not tried again, by log policy 'bad disk' (10 retries are left)"
    )


def test_a_log_policy_keeps_the_next_attempts_away_from_a_node() -> None:
    first = end(a_run(), ran_s=60.0, **matched(LogAction.EXCLUDE_NODE))
    assert (first.after.state, first.after.excluded_nodes) == (RunState.QUEUED, ("n1",))
    assert first.attempt is not None
    assert first.attempt.cause is not None
    assert "found on n1: EIO (the run keeps away from this node)" in first.attempt.cause.message
    assert candidate_of(first.after).target.excluded == ("n1",)
    second = end(again(first.after), ran_s=60.0, **matched(LogAction.EXCLUDE_NODE, node="n2"))
    assert second.after.excluded_nodes == ("n1", "n2")


def test_a_log_policy_without_an_action_only_names_the_cause() -> None:
    step = end(a_run(), ran_s=60.0, **matched(None))
    assert (step.after.state, step.after.excluded_nodes) == (RunState.QUEUED, ())
    assert step.attempt is not None
    assert step.attempt.cause is not None
    assert step.attempt.cause.message == "because; log policy 'bad disk' found on n1: EIO"
