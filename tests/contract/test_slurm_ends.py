"""How an attempt on Slurm ended: what its runners say, what Slurm says, and which of the two counts."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from engine_harness import Work, ended, started, submit
from slurm_harness import AGAIN_S, TEMPO, SlurmHarness, StandInHarness
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import ObservedState
from tarmac.model.progress import CauseCode, Outcome
from tarmac.node.attempt.protocol import LATE_PORT, late_address

pytestmark = pytest.mark.xdist_group("slurm")


def test_an_attempt_on_two_nodes_knows_them_and_completes(slurm_harness: SlurmHarness) -> None:
    told = f'echo "$NODE_RANK {late_address(0)} {LATE_PORT}"'
    argvs = dict.fromkeys((0, 1), ("bash", "-c", told))
    attempt = submit(slurm_harness, Work(), nodes=2, argvs=argvs)
    over = slurm_harness.settle(attempt, ended)
    assert (over.outcome, over.nodes) == (Outcome.COMPLETED, ("n1", "n2"))
    logs = [slurm_harness.engine.read(attempt, f"logs/main.{rank}.0.log").split() for rank in (0, 1)]
    assert [log[:2] for log in logs] == [[b"0", b"127.0.0.1"], [b"1", b"127.0.0.1"]]
    assert logs[0][2] == logs[1][2]
    assert logs[0][2].isdigit()


def test_a_failing_worker_is_named(slurm_harness: SlurmHarness) -> None:
    attempt = submit(slurm_harness, Work(output="out of luck\n", exit_code=7))
    over = slurm_harness.settle(attempt, ended)
    assert over.outcome is Outcome.FAILED
    assert over.cause is not None
    assert (over.cause.code, over.cause.exit_code) == (CauseCode.EXIT_CODE, 7)
    assert (over.cause.node, over.cause.tail) == ("n1", ("out of luck",))


@pytest.mark.parametrize(
    ("ask", "outcome"), [(LeaveRequest.PAUSE, Outcome.PAUSED), (LeaveRequest.STOP, Outcome.STOPPED)]
)
def test_one_that_runs_is_asked_through_its_directory(
    slurm_harness: SlurmHarness, ask: LeaveRequest, outcome: Outcome
) -> None:
    attempt = started(slurm_harness, Work(lasts=True), nodes=2)
    slurm_harness.engine.request_leave(attempt, ask)
    assert slurm_harness.settle(attempt, ended).outcome is outcome


def test_a_job_that_somebody_cancels_is_stopped_and_says_by_whom(slurm_harness: SlurmHarness) -> None:
    attempt = started(slurm_harness, Work(lasts=True), nodes=2)
    job = slurm_harness.job(attempt)
    slurm_harness.command("scancel", job)
    over = slurm_harness.settle(attempt, ended)
    assert over.outcome is Outcome.STOPPED
    assert over.cause is not None
    assert over.cause.message == f"job {job} was cancelled in Slurm, not through tarmac"


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        ("TIMEOUT", Outcome.PREEMPTED, CauseCode.WALL_TIME),
        ("DEADLINE", Outcome.FAILED, CauseCode.TIME_LIMIT),
        ("BOOT_FAIL", Outcome.LOST, CauseCode.NODE_LOST),
        ("OUT_OF_MEMORY", Outcome.FAILED, CauseCode.OUT_OF_MEMORY),
        ("NODE_FAIL", Outcome.LOST, CauseCode.NODE_LOST),
        ("PREEMPTED", Outcome.PREEMPTED, CauseCode.PREEMPTION),
    ],
)
def test_what_slurm_ended_is_not_blamed_on_the_workers(
    standin: StandInHarness, state: str, outcome: Outcome, code: CauseCode
) -> None:
    (Path(standin.variables["STANDIN"]) / "ends-as").write_text(state)
    attempt = started(standin, Work(lasts=True))
    standin.command("scancel", standin.job(attempt))
    over = standin.settle(attempt, ended)
    assert over.cause is not None
    assert (over.outcome, over.cause.code) == (outcome, code)


def test_memory_that_slurm_counts_itself_is_told_by_the_log_of_the_job(standin: StandInHarness) -> None:
    """With JobAcctGatherParams=OverMemoryKill the job is FAILED, and only its log says why."""
    (Path(standin.variables["STANDIN"]) / "ends-as").write_text("FAILED")
    attempt = started(standin, Work(lasts=True))
    log = standin.home / "runs" / attempt.replace(".", "/attempts/") / "slurm.log"
    with log.open("a") as file:
        file.write(
            "slurmstepd-n1: error: StepId=1.0 exceeded memory limit (462233600 > 104857600), being killed\n"
        )
        file.write("srun: error: n1: task 0: Killed\n")
    standin.command("scancel", standin.job(attempt))
    over = standin.settle(attempt, ended)
    assert over.cause is not None
    assert (over.outcome, over.cause.code) == (Outcome.FAILED, CauseCode.OUT_OF_MEMORY)


def test_a_job_whose_nodes_do_not_see_the_directory_says_so(standin: StandInHarness) -> None:
    """Where no job ever began nothing else can be expected of the next; else it may be that node's fault."""
    standin.hold_the_queue(True)
    attempt = submit(standin, Work())
    standin.becomes(standin.job(attempt), "FAILED")
    seen = standin.settle(attempt, ended)
    assert seen.cause is not None
    assert (seen.outcome, seen.cause.code) == (Outcome.FAILED, CauseCode.UNSUPPORTED)
    assert "its nodes do not see that directory" in seen.cause.message

    standin.hold_the_queue(False)
    started(standin, Work(lasts=True), run_id="sees")
    standin.hold_the_queue(True)
    attempt = submit(standin, Work(), run_id="again")
    standin.becomes(standin.job(attempt), "FAILED")
    seen = standin.settle(attempt, ended)
    assert seen.cause is not None
    assert (seen.outcome, seen.cause.code) == (Outcome.LOST, CauseCode.PLATFORM_FAULT)
    assert "slurm.log: do its nodes see that directory?" in seen.cause.message


def test_a_job_that_its_controller_forgot_while_it_waited_is_not_said_to_have_run(
    standin: StandInHarness,
) -> None:
    """A controller that is killed knows nothing of the jobs since its last state was saved."""
    started(standin, Work(lasts=True), run_id="sees")
    standin.hold_the_queue(True)
    attempt = submit(standin, Work(), run_id="again")
    standin.knob(f"forgotten/{standin.job(attempt)}", True)
    seen = standin.settle(attempt, ended)
    assert seen.cause is not None
    assert (seen.outcome, seen.cause.code) == (Outcome.LOST, CauseCode.PLATFORM_FAULT)
    assert seen.cause.message.endswith("nothing says how it ended, nor that it ever began")


def test_one_that_saves_when_slurm_ends_it_and_exits_with_0_has_not_completed(
    slurm_harness: SlurmHarness,
) -> None:
    saves = "trap 'exit 0' TERM; echo working; sleep 3600 & wait"
    attempt = started(slurm_harness, Work(lasts=True), argvs={0: ("bash", "-c", saves)})
    slurm_harness.command("scancel", slurm_harness.job(attempt))
    assert slurm_harness.settle(attempt, ended).outcome is Outcome.STOPPED


def test_one_that_had_ended_before_slurm_cancelled_its_job_is_what_its_runners_say(
    standin: StandInHarness,
) -> None:
    """A controller that comes back finds nothing of a job that ended meanwhile, and calls it cancelled."""
    attempt = submit(standin, Work(output="done\n"))
    while "|COMPLETED|" not in standin.command("squeue"):
        assert "|FAILED|" not in standin.command("squeue")
        Event().wait(AGAIN_S)
    standin.becomes("1", "CANCELLED", end=time.time() + 60)
    assert standin.settle(attempt, ended).outcome is Outcome.COMPLETED


def test_of_a_job_whose_end_slurm_never_learned_its_runners_word_counts_at_last(
    standin: StandInHarness,
) -> None:
    """A controller that was killed while a job ended takes it for running, until it asks the node."""
    attempt = submit(standin, Work(output="done\n"))
    while "|COMPLETED|" not in standin.command("squeue"):
        assert "|FAILED|" not in standin.command("squeue")
        Event().wait(AGAIN_S)
    standin.becomes("1", "RUNNING")
    assert standin.engine.observe([attempt])[attempt].state is ObservedState.UNKNOWN
    standin.engine = standin.open(replace(TEMPO, forgotten_s=0.0))
    assert standin.settle(attempt, ended).outcome is Outcome.COMPLETED
    assert "|RUNNING|" not in standin.command("squeue"), "its nodes are given back"


def test_a_reaped_attempt_is_gone(slurm_harness: SlurmHarness) -> None:
    attempt = started(slurm_harness, Work(lasts=True, ignores_requests=False))
    slurm_harness.engine.reap(attempt)
    assert slurm_harness.settle(attempt, ended).outcome in (Outcome.STOPPED, Outcome.LOST)


def test_a_job_that_slurm_forgot_while_it_ran_is_lost_and_its_runners_end(standin: StandInHarness) -> None:
    attempt = started(standin, Work(lasts=True))
    standin.forget(attempt)
    lost = standin.settle(attempt, ended)
    assert lost.outcome is Outcome.LOST
    standin.engine.reap(attempt)
    standin.settle(attempt, lambda _: standin.engine.workers(attempt)[0].ended_at is not None)


@pytest.mark.parametrize(
    ("state", "outcome", "code"),
    [
        ("NODE_FAIL", Outcome.LOST, CauseCode.NODE_LOST),
        ("PREEMPTED", Outcome.PREEMPTED, CauseCode.PREEMPTION),
        ("CANCELLED", Outcome.STOPPED, CauseCode.USER_REQUEST),
    ],
)
def test_runners_that_outlive_their_job_are_stopped_before_it_is_over(
    standin: StandInHarness, state: str, outcome: Outcome, code: CauseCode
) -> None:
    """As on a node whose slurmd died: the next attempt must not begin beside them."""
    attempt = started(standin, Work(lasts=True))
    standin.becomes(standin.job(attempt), state)
    over = standin.settle(attempt, ended)
    assert over.cause is not None
    assert (over.outcome, over.cause.code) == (outcome, code)
    assert standin.engine.workers(attempt)[0].ended_at is not None


def test_a_job_that_is_put_back_into_the_queue_makes_room_for_another(standin: StandInHarness) -> None:
    attempt = started(standin, Work(lasts=True))
    job = standin.job(attempt)
    standin.hold_the_queue(True)
    standin.becomes(job, "PENDING")
    over = standin.settle(attempt, ended)
    assert over.cause is not None
    assert (over.outcome, over.cause.code) == (Outcome.PREEMPTED, CauseCode.PREEMPTION)
    assert "CANCELLED" in standin.command("squeue")
    standin.settle(attempt, lambda _: standin.engine.workers(attempt)[0].ended_at is not None)
    standin.engine = standin.open()  # a server that was killed before it wrote that down
    assert standin.settle(attempt, ended).outcome is Outcome.PREEMPTED


def test_a_job_whose_nodes_are_being_configured_was_not_put_back(standin: StandInHarness) -> None:
    """Its script may have begun on some of them: it has its nodes, and goes on."""
    attempt = started(standin, Work(lasts=True))
    standin.becomes(standin.job(attempt), "CONFIGURING")
    for _ in range(3):
        assert standin.engine.observe([attempt])[attempt].state is ObservedState.RUNNING
    standin.becomes(standin.job(attempt), "RUNNING")
    assert standin.engine.observe([attempt])[attempt].state is ObservedState.RUNNING


def test_workers_are_asked_to_leave_before_their_job_ends(standin: StandInHarness) -> None:
    (Path(standin.variables["STANDIN"]) / "ends-in").write_text("4")
    saves = "trap 'exit 0' TERM; echo working; sleep 3600 & wait"
    over = standin.settle(submit(standin, Work(lasts=True), argvs={0: ("bash", "-c", saves)}), ended)
    assert over.cause is not None
    assert (over.outcome, over.cause.code) == (Outcome.PREEMPTED, CauseCode.WALL_TIME)
