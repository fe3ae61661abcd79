"""What only an engine of Slurm can meet: a queue, lost answers, a controller that is away."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Queue

import pytest

from attempts import wait_until
from engine_harness import BOUND_S, Work, ended, started, submit
from slurm_clusters import install_standin
from slurm_harness import SlurmHarness, StandInHarness
from tarmac.engines.slurm import files
from tarmac.engines.slurm.settings import Tempo
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.lifecycle import LeaveRequest
from tarmac.model.ports import Observation, ObservedState
from tarmac.model.progress import Outcome

pytestmark = pytest.mark.xdist_group("slurm")

SITE = Cluster(name="site", engine="slurm")


# --- waiting ------------------------------------------------------------------------------------------


def placed(seen: Observation) -> bool:
    return seen.native is not None and seen.native.place is not None


def test_a_job_that_waits_has_a_place(slurm_harness: SlurmHarness) -> None:
    slurm_harness.hold_the_queue(True)
    attempt = submit(slurm_harness, Work())
    native = slurm_harness.settle(attempt, placed).native
    assert native is not None
    assert (native.place, native.waiting) == (1, 1)
    slurm_harness.hold_the_queue(False)
    assert slurm_harness.settle(attempt, ended).outcome is Outcome.COMPLETED


def test_the_queue_of_the_whole_site_is_read_seldom_and_only_while_something_waits(
    standin: StandInHarness,
) -> None:
    """One query a minute, whatever waits: it makes the controller send the jobs of everybody."""
    (Path(standin.variables["STANDIN"]) / "strangers").write_text("98|5000|batch|other\n99|10|batch|other\n")
    attempt = submit(standin, Work())
    standin.settle(attempt, ended)
    standin.hold_the_queue(True)
    waiting = [submit(standin, Work(), run_id=f"run{number}") for number in (2, 3)]
    first, second = (standin.settle(attempt, placed).native for attempt in waiting)
    assert first is not None
    assert second is not None
    assert (first.place, second.place, second.waiting) == (2, 3, 4)
    standin.engine.observe(waiting)
    assert standin.calls("everybody") == 1


def test_workers_find_the_job_they_are_part_of_and_no_rank_of_srun(slurm_harness: SlurmHarness) -> None:
    """What loggers and scripts look up is there; what makes a framework take the ranks of srun is not."""
    argv = ("sh", "-c", "env | grep ^SLURM_ | sort")
    attempt = submit(slurm_harness, Work(), nodes=2, argvs={0: argv, 1: argv})
    assert slurm_harness.settle(attempt, ended).outcome is Outcome.COMPLETED
    for rank in (0, 1):
        text = slurm_harness.engine.read(attempt, f"logs/main.{rank}.0.log").decode()
        found = dict(line.partition("=")[::2] for line in text.splitlines())
        assert found.pop("SLURM_JOB_ID").isdigit()
        assert found.pop("SLURM_JOB_NODELIST")
        assert found.pop("SLURM_JOB_PARTITION") == "batch"
        assert found.pop("SLURM_NODEID") == str(rank)
        assert found.keys() <= {"SLURM_JOB_ACCOUNT"}  # a Slurm without accounting has none


def test_what_travels_is_compiled_before_the_first_job_begins(tmp_path: Path) -> None:
    """Else every node of the first job compiles all of it at the same time, while the job waits."""
    fresh = StandInHarness(tmp_path / "fresh", install_standin(tmp_path / "standin"))
    fresh.hold_the_queue(True)
    attempt = submit(fresh, Work(output="from there\n"))
    compiled = {
        path.name.partition(".")[0] for path in fresh.home.glob("node/*/tarmac/node/__pycache__/*.pyc")
    }
    sources = {path.stem for path in fresh.home.glob("node/*/tarmac/node/*.py")}
    assert "runner" in sources
    assert compiled == sources
    fresh.hold_the_queue(False)
    assert fresh.settle(attempt, ended).outcome is Outcome.COMPLETED
    fresh.close()


# --- exactly once -------------------------------------------------------------------------------------


def test_a_job_whose_answer_was_lost_is_found_and_not_submitted_again(standin: StandInHarness) -> None:
    standin.knob("lose-answer", True)
    launch = standin.launch(Work(output="once\n"))
    request = standin.engine.render(launch)
    with pytest.raises(Unavailable, match="timed out"):
        standin.engine.submit(request)
    standin.engine = standin.open()  # by another server, even
    standin.engine.submit(request)
    assert standin.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert standin.calls("sbatch") == 1


def test_of_two_jobs_of_one_attempt_one_runs_it(standin: StandInHarness) -> None:
    standin.hold_the_queue(True)
    launch = standin.launch(Work(output="once\n"))
    request = standin.engine.render(launch)
    standin.engine.submit(request)
    standin.command("sbatch", "--parsable", str(request.directory / "slurm.sh"))
    standin.hold_the_queue(False)
    assert standin.settle(launch.attempt_id, ended).outcome is Outcome.COMPLETED
    assert standin.engine.read(launch.attempt_id, "logs/main.0.0.log") == b"once\n"


def test_an_attempt_taken_back_before_its_answer_was_heard_never_begins(standin: StandInHarness) -> None:
    standin.hold_the_queue(True)
    standin.knob("lose-answer", True)
    launch = standin.launch(Work(output="never"))
    with pytest.raises(Unavailable):
        standin.engine.submit(standin.engine.render(launch))
    standin.engine.request_leave(launch.attempt_id, LeaveRequest.STOP)
    standin.hold_the_queue(False)
    over = standin.engine.observe([launch.attempt_id])[launch.attempt_id]
    assert (over.state, over.outcome) == (ObservedState.ENDED, Outcome.STOPPED)
    assert "CANCELLED" in standin.command("squeue")


def test_a_number_that_slurm_gave_once_more_is_not_cancelled(standin: StandInHarness) -> None:
    """A controller that lost its state counts from an earlier number on."""
    standin.hold_the_queue(True)
    first, other = (submit(standin, Work(), run_id=run_id) for run_id in ("run1", "run2"))
    number = standin.job(other)
    standin.forget(first)
    (standin.home / "runs/run1/attempts/1/slurm-submitted").write_text(number)
    standin.engine.reap(first)
    assert standin.engine.observe([other])[other].state is ObservedState.SUBMITTED


def test_what_slurm_will_never_take_is_refused(standin: StandInHarness) -> None:
    launch = standin.launch(Work())
    request = standin.engine.render(launch)
    other = replace(request, script=request.script.replace("partition=batch", "partition=none"))
    with pytest.raises(InvalidInput, match="Invalid partition name"):
        standin.engine.submit(other)


# --- turns --------------------------------------------------------------------------------------------


def test_a_turn_that_fails_as_it_is_asked_to_leave_ends_its_job_at_once(slurm_harness: SlurmHarness) -> None:
    """The job keeps its nodes for the next turn only."""
    fails = ("bash", "-c", "trap 'exit 3' TERM; echo working; while true; do sleep 0.05; done")
    attempt = started(slurm_harness, Work(lasts=True), argvs={0: fails}, turns=2)
    slurm_harness.engine.request_leave(attempt, LeaveRequest.PREEMPT)
    over = slurm_harness.settle(attempt, ended)
    assert (over.outcome, over.ended_at is not None) == (Outcome.FAILED, True)


def test_a_turn_after_one_whose_job_is_gone_has_a_job_of_its_own(standin: StandInHarness) -> None:
    first = started(standin, Work(lasts=True), turns=2)
    job = standin.job(first)
    standin.engine.request_leave(first, LeaveRequest.PREEMPT)
    standin.settle(first, ended)
    standin.command("scancel", job)
    second = submit(standin, Work(), number=2, turns=1)
    assert standin.settle(second, ended).outcome is Outcome.COMPLETED
    assert standin.job(second) != job


def test_a_turn_that_asks_for_other_nodes_has_a_job_of_its_own(standin: StandInHarness) -> None:
    """As where a pool was changed, or the server updated: the job would start another runner."""
    first = started(standin, Work(lasts=True), turns=2)
    standin.engine.request_leave(first, LeaveRequest.PREEMPT)
    standin.settle(first, ended)
    second = submit(standin, Work(), nodes=2, number=2, turns=1)
    assert standin.job(second) != standin.job(first)
    assert standin.settle(second, ended).outcome is Outcome.COMPLETED


def test_a_turn_after_one_that_wrote_over_its_script_has_a_job_of_its_own(standin: StandInHarness) -> None:
    """The script is in a directory where the run may write: bytes that are no text are no script of ours."""
    first = started(standin, Work(lasts=True), turns=2)
    (script,) = standin.home.rglob(files.SCRIPT)
    script.write_bytes(b"\xff")
    standin.engine.request_leave(first, LeaveRequest.PREEMPT)
    standin.settle(first, ended)
    second = submit(standin, Work(), number=2, turns=1)
    assert standin.settle(second, ended).outcome is Outcome.COMPLETED
    assert standin.job(second) != standin.job(first)


def test_a_server_that_comes_back_between_two_turns_finds_their_job(slurm_harness: SlurmHarness) -> None:
    """Whatever it had done of the handover, the next turn runs once."""
    first = started(slurm_harness, Work(lasts=True), turns=2)
    job = slurm_harness.job(first)
    slurm_harness.engine.request_leave(first, LeaveRequest.PREEMPT)
    slurm_harness.settle(first, ended)
    launch = slurm_harness.launch(Work(output="once\n", lasts=True), number=2, turns=1)
    slurm_harness.engine.submit(slurm_harness.engine.render(launch))
    slurm_harness.engine = slurm_harness.open()
    slurm_harness.engine.submit(slurm_harness.engine.render(launch))
    slurm_harness.at_work(launch.attempt_id)
    assert slurm_harness.job(launch.attempt_id) == job
    slurm_harness.engine.reap(launch.attempt_id)
    slurm_harness.settle(launch.attempt_id, ended)
    assert slurm_harness.engine.read(launch.attempt_id, "logs/main.0.0.log").count(b"once") == 1


# --- asking Slurm -------------------------------------------------------------------------------------


def test_one_query_serves_all_attempts(standin: StandInHarness) -> None:
    standin.hold_the_queue(True)
    attempts = [submit(standin, Work(), run_id=f"run{number}") for number in range(5)]
    before = standin.calls("squeue")
    seen = standin.engine.observe(attempts)
    assert {each.state for each in seen.values()} == {ObservedState.SUBMITTED}
    assert standin.calls("squeue") == before + 1


def test_an_end_is_news_without_asking_slurm(standin: StandInHarness, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    waits = ("bash", "-c", f"echo working; read line < {gate}")
    attempt = started(standin, Work(lasts=True), argvs={0: waits})
    standin.engine = standin.open(Tempo(query_s=0.0, look_s=0.05))
    news: Queue[str] = Queue()
    standin.engine.subscribe(news.put)
    standin.engine.observe([attempt])
    before = standin.calls("squeue")
    gate.write_text("go\n")
    assert news.get(timeout=BOUND_S) == attempt
    assert standin.calls("squeue") == before


def test_a_controller_that_is_down_loses_nothing(standin: StandInHarness) -> None:
    attempt = started(standin, Work(lasts=True))
    standin.knob("down", True)
    with pytest.raises(Unavailable, match="Unable to contact slurm controller"):
        standin.engine.observe([attempt])
    standin.engine.request_leave(attempt, LeaveRequest.PAUSE)  # goes through the directory, as does its end

    def outcome() -> Outcome | None:
        with suppress(Unavailable):
            return standin.engine.observe([attempt])[attempt].outcome
        return None

    assert wait_until(outcome, "it does not leave") is Outcome.PAUSED
    standin.knob("down", False)


def test_a_server_that_comes_back_finds_its_jobs(slurm_harness: SlurmHarness) -> None:
    attempt = started(slurm_harness, Work(lasts=True))
    slurm_harness.engine = slurm_harness.open()
    assert slurm_harness.engine.observe([attempt])[attempt].state is ObservedState.RUNNING
    slurm_harness.engine.request_leave(attempt, LeaveRequest.STOP)
    assert slurm_harness.settle(attempt, ended).outcome is Outcome.STOPPED
